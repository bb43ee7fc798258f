"""Runs pytest for one edit after another, in forks of a process that has imported torch and transformers: that takes
longer than most tests.

A line of standard input is an order, {"environment": {...}, "arguments": [...], "seconds": 300}; the line that
answers is pytest's exit status.
"""

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


for line in sys.stdin:
    if (child := os.fork()) == 0:
        status = 1
        try:
            status = obey(json.loads(line))
        finally:
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
