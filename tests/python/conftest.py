"""Makes the tests import the Python package from models/record, even if it is installed, and runs torch on one thread,
which is faster for small models."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent / "models" / "record" / "src"), str(TESTS)]
