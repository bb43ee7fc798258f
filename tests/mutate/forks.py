"""Runs pytest for one edit after another, in forks of a process that has imported torch and transformers, because
importing them takes longer than most tests.

A line of standard input is an order, {"environment": {...}, "arguments": [...], "seconds": 300}; the answering line is
pytest's exit status.
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


def obey(order: dict[str, Any]) -> int:
    """Carries out an order in the fork; returns pytest's exit status."""
    os.environ |= order["environment"]
    # The first limit ends infinite loops, the second one endless waits.
    resource.setrlimit(resource.RLIMIT_CPU, (order["seconds"], order["seconds"]))
    signal.alarm(10 * order["seconds"])
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    sys.path[:0] = order["environment"]["PYTHONPATH"].split(os.pathsep)
    runpy.run_path(str(SITE))
    return int(pytest.main(order["arguments"]))


def end_orphans() -> None:
    """Kill the processes that an order left behind, such as a Ray cluster, which would use up processor time."""
    while children := Path("/proc/thread-self/children").read_text().split():
        for child in map(int, children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


# When a fork ends, the processes that it started become children of this process.
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
for line in sys.stdin:
    if (child := os.fork()) == 0:
        status = 1
        try:
            status = obey(json.loads(line))
        finally:
            os._exit(status)
    # A test may wait until a process that it ended is gone, so reap every child here.
    while (ended := os.waitpid(-1, 0))[0] != child:
        pass
    end_orphans()
    print(os.waitstatus_to_exitcode(ended[1]), flush=True)
