"""Runs a study of many small models on Ray and kills its workers and driver at random times.

    python tests/bench/cluster.py [--models 1000] [--prompts 2000] [--kills 10] [--workers 2] [--out FOLDER]

FOLDER is kept, and a study that was begun in it is continued. A forward pass takes 1 ms a prompt. Prints the driver's
memory, the files of a checkpoint, what was lost or doubled, and how much faster two workers are than one.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models" / "record" / "src"), str(ROOT / "tests" / "record")]
SECONDS = 0.001  # duration of a forward pass over one prompt


def drive(out: str, models: int, prompts: int, workers: int) -> None:
    import killed
    from sinkscope import studies

    killed.start_ray()
    block = -(-prompts // studies.MOST_PARTS)
    studies.study(killed.models(models, SECONDS), killed.prompts(prompts), out, ray=True, concurrency=workers,
                  **killed.settings(block))


class Driver:
    """The process of a driver, which restarts after it is killed."""

    def __init__(self, out: Path, models: int, prompts: int, workers: int) -> None:
        self.command = [sys.executable, __file__, "--drive", str(out), "--models", str(models), "--prompts",
                        str(prompts), "--workers", str(workers)]
        self.memory: list[int] = []  # MiB of the driver, without its workers, every second
        self.starts = 0

    def run(self) -> None:
        """Runs the driver until the study has ended."""
        import psutil

        env = os.environ | {"RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
        while True:
            self.starts += 1
            with tempfile.TemporaryFile("w+") as log:
                self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT, env=env)
                while self.process.poll() is None:
                    try:
                        self.memory.append(psutil.Process(self.process.pid).memory_full_info().uss >> 20)
                    except psutil.Error:
                        break
                    time.sleep(1)
                code = self.process.wait()
                log.seek(0)
                text = log.read()
            if code == 0:
                return
            if code != -signal.SIGKILL:
                raise RuntimeError(text[-3000:])

    def kill(self, target: str) -> bool:
        """Kills a worker or the driver; returns False if there is none."""
        import psutil

        try:
            process = psutil.Process(self.process.pid)
            if target == "worker":
                children = process.children(recursive=True)
                workers = [child for child in children if "_RayWorker" in " ".join(child.cmdline())]
                process = random.choice(workers)
            process.kill()
        except (psutil.Error, IndexError):
            return False
        return True


def parts_of(out: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(out / "rows"))


def rate_of(driver: Driver, out: Path) -> float:
    """Returns the parts per second between the first and the last part; before the first, Ray and its workers start."""
    driver.run()
    write_times = sorted(part.stat().st_mtime for part in (out / "rows").rglob("*.parquet"))
    return (len(write_times) - 1) / (write_times[-1] - write_times[0])


def kill_at_random(driver: Driver, out: Path, kills: int, parts: int, study_end: threading.Event) -> None:
    """Spreads the kills over the study: each kill waits for some more parts, then for a random while."""
    start_parts, kill_count = parts_of(out), 0
    while kill_count < kills and not study_end.is_set():
        if parts_of(out) - start_parts >= (parts - start_parts) * (kill_count + 0.5) / (kills + 1):
            time.sleep(random.uniform(0, 2))
            if driver.kill("driver" if kill_count % 3 == 1 else "worker"):
                kill_count += 1
        time.sleep(0.2)
    print(f"killed {kill_count} times, the driver {max(0, driver.starts - 1)} of them")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drive", metavar="OUT", help=argparse.SUPPRESS)
    for name, number in (("models", 1000), ("prompts", 2000), ("kills", 10), ("workers", 2), ("timed", 8)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--out", metavar="FOLDER", type=Path)
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if options.drive:
        drive(options.drive, options.models, options.prompts, options.workers)
        return
    import killed
    import numpy as np
    from sinkscope import Recording, studies

    folder = Path(tempfile.mkdtemp())
    out, parts = options.out or folder / "study", options.models * studies.MOST_PARTS
    driver, study_end = Driver(out, options.models, options.prompts, options.workers), threading.Event()
    killer = threading.Thread(target=kill_at_random, args=(driver, out, options.kills, parts, study_end))
    killer.start()
    driver.run()
    study_end.set()
    killer.join()
    rows: Counter[tuple[str, int]] = Counter()
    for row in studies.rows_of(out):
        rows[row["model"], row["prompt"]] += row["state"] == "measured"
    expected = options.models * options.prompts
    print(f"rows: {expected} expected, {expected - len(rows)} lost, {sum(n > 1 for n in rows.values())} doubled")
    files = Counter(path.relative_to(out).parts[-1].rpartition(".")[0] if path.suffix == ".safetensors" else
                    path.parent.name for path in out.rglob("*") if path.is_file() and path.name != studies.STUDY_FILE)
    print(f"files: {max(files.values())} a checkpoint at most, of {len(files)} checkpoints")
    third = -(-len(driver.memory) // 3)
    print(f"driver: {max(driver.memory)} MB at most; {max(driver.memory[:third])} in the first third of the time, "
          f"{max(driver.memory[-third:])} in the last")
    sample = dict(list(killed.models(options.models).items())[:: max(1, options.models // 3)])
    block = -(-options.prompts // studies.MOST_PARTS)
    start = time.process_time()
    plain_study = studies.study(sample, killed.prompts(options.prompts), folder / "plain", **killed.settings(block))
    seconds = time.process_time() - start
    print(f"a plain loop: {seconds / len(sample):.2f} s of processor time a checkpoint, that of the model included")
    for address in plain_study.values():
        recording, plain = (Recording.open(path) for path in (out / Path(address).name, address))
        assert recording.conditions == plain.conditions and all(
            np.array_equal(recording[name], x, equal_nan=x.dtype.kind == "f") for name, x in plain.tensors.items())
    print(f"recordings: {len(plain_study)} compared with an undisturbed loop's, the same bits")
    solo_rate, rate = (rate_of(Driver(folder / f"{n}", options.timed, options.prompts, n), folder / f"{n}")
                       for n in (1, options.workers))
    print(f"{options.workers} workers: {rate / solo_rate:.2f} times as fast as one ({solo_rate:.2f} and {rate:.2f} "
          f"parts a second of {options.timed} models)")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
