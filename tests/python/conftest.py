"""Tests import the package of models/record from its folder, installed or not. torch runs on one thread, because the
models are small."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "models" / "record" / "src"))
