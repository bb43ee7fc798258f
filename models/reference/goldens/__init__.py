"""The scripts that write tests/golden, one for each origin of the numbers.

$SINKSCOPE_GOLDENS names another folder to write to, a copy of tests/golden: some scripts read what
others wrote. Torch runs on one thread here, because sums are added in another order on two.
"""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
GOLDEN = Path(os.environ.get("SINKSCOPE_GOLDENS", REPOSITORY / "tests" / "golden"))
ZOO = REPOSITORY / "models" / "zoo"

os.environ["OMP_NUM_THREADS"] = "1"  # read once, when torch is imported
