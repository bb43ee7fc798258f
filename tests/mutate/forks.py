"""Runs pytest for one edit after another, in forks of a process that has imported torch and transformers, because
importing them takes longer than most tests.

A line of standard input is an order, {"environment": {...}, "arguments": [...], "seconds": 300}; the answering line has
pytest's exit status and the first test, or the first file that could not be imported, that failed.
"""

import ctypes
import json
import os
import resource
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import jsonschema  # noqa: F401
import numpy  # noqa: F401
import pyarrow  # noqa: F401
import pytest
import torch  # noqa: F401
from transformers import AutoModelForCausalLM  # noqa: F401

SITE = Path(__file__).parent / "site" / "sitecustomize.py"
PR_SET_CHILD_SUBREAPER = 36


class FirstFailure:
    """Writes the first test that fails, or the first file that cannot be imported, to a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor: int | None = descriptor

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and self.descriptor is not None:
            os.write(self.descriptor, report.nodeid.encode())
            self.descriptor = None


def run_order(order: dict[str, Any], failure: int) -> int:
    """Carries out an order in the fork; returns pytest's exit status."""
    os.environ |= order["environment"]
    # The first limit ends infinite loops, the second one endless waits.
    resource.setrlimit(resource.RLIMIT_CPU, (order["seconds"], order["seconds"]))
    signal.alarm(10 * order["seconds"])
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(devnull, stream)
    # `python -m pytest` also puts the working directory, with the packages of the repository, on the path.
    sys.path[:0] = [*order["environment"]["PYTHONPATH"].split(os.pathsep), str(Path.cwd())]
    runpy.run_path(str(SITE))
    return int(pytest.main(order["arguments"], plugins=[FirstFailure(failure)]))


def end_orphans() -> None:
    """Kills the processes that an order left behind, such as a Ray cluster, which would use up processor time."""
    while children := Path("/proc/thread-self/children").read_text().split():
        for child in map(int, children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


# When a fork ends, the processes that it started become children of this process.
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
for line in sys.stdin:
    read_end, write_end = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            status = run_order(json.loads(line), write_end)
        finally:
            os._exit(status)
    os.close(write_end)
    # A test may wait until a process that it ended is gone, so reap every child here.
    while (exited := os.waitpid(-1, 0))[0] != child:
        pass
    end_orphans()
    with os.fdopen(read_end) as failure:
        print(json.dumps({"status": os.waitstatus_to_exitcode(exited[1]), "failed": failure.read()}), flush=True)
