"""Runs pytest for one edit after another, in forks of a process that has imported torch and transformers: that takes
longer than most tests.

A line of standard input is an order, {"environment": {...}, "arguments": [...], "seconds": 300}; the line that
answers is pytest's exit status.
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
    """In the fork: pytest's exit status."""
    os.environ |= order["environment"]
    # A loop without an end, and a wait for something that never comes.
    resource.setrlimit(resource.RLIMIT_CPU, (order["seconds"], order["seconds"]))
    signal.alarm(10 * order["seconds"])
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    sys.path[:0] = order["environment"]["PYTHONPATH"].split(os.pathsep)
    runpy.run_path(str(SITE))
    return int(pytest.main(order["arguments"]))


def end_orphans() -> None:
    """Ends what an order has started and left, such as a cluster of Ray: each would take a share of the processor."""
    while children := Path("/proc/thread-self/children").read_text().split():
        for child in map(int, children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


# What the fork started becomes a child of this process when the fork ends.
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
for line in sys.stdin:
    if (child := os.fork()) == 0:
        status = 1
        try:
            status = obey(json.loads(line))
        finally:
            os._exit(status)
    # A test may wait until what it has ended is gone, which somebody must ask for.
    while (ended := os.waitpid(-1, 0))[0] != child:
        pass
    end_orphans()
    print(os.waitstatus_to_exitcode(ended[1]), flush=True)
