"""Trains runs of the zoo on a local Ray: one worker is lost, and a finished run is not repeated."""

import os
import sys
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="ray is not installed")
pytest.importorskip("tomllib", reason="training needs Python 3.11")

from models.train import all as everything  # noqa: E402


@pytest.fixture
def _local_ray() -> object:
    for attempt in range(5):
        try:
            ray.init(
                num_cpus=2,
                include_dashboard=False,
                object_store_memory=200 * 2**20,
                log_to_driver=False,
                runtime_env={"env_vars": {"PYTHONPATH": str(everything.ROOT)}},
            )
            break
        except Exception as error:  # a busy machine starts a node later than Ray waits for
            ray.shutdown()
            if "timed out" not in str(error) or attempt == 4:
                raise
    yield
    ray.shutdown()


@pytest.mark.usefixtures("_local_ray")
def test_runs_train_on_ray_and_a_lost_run_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path)

    def train(id: str, seed: int, corpora: Path, runs: Path, *options: str) -> int:
        log = Path(folder) / f"{id}-{seed}"
        earlier_lines = log.read_text() if log.exists() else ""
        log.write_text(f"{earlier_lines}{seed} {runs.is_absolute()}\n")
        if (id, earlier_lines) == ("second", ""):
            os._exit(1)
        return 3 if id == "third" else 0

    monkeypatch.setattr(everything, "Corpus", lambda *_: None)
    monkeypatch.setattr(everything, "recipes", lambda: dict.fromkeys(("first", "second", "third")))
    monkeypatch.setattr(everything, "train", train)

    def unfinished_jobs(runs: Path, only: list[str]) -> list[tuple[str, int]]:
        return [(id, 7) for id in only if not (tmp_path / f"{id}-7").exists()]

    monkeypatch.setattr(everything, "unfinished_jobs", unfinished_jobs)
    for only, code in ((["first", "second"], 0), (["first", "second", "third"], 3)):
        monkeypatch.setattr(sys, "argv", ["all", "--ray", "--jobs", "2", "--corpora", folder, "--runs", folder, *only])
        with pytest.raises(SystemExit) as exit_info:
            everything.main()
        assert exit_info.value.code == code
    lines = {path.name: path.read_text().splitlines() for path in tmp_path.iterdir() if path.is_file()}
    assert lines == {"first-7": ["7 True"], "second-7": ["7 True"] * 2, "third-7": ["7 True"]}
