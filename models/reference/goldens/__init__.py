"""The scripts that write tests/golden, one per source of the numbers.

$SINKSCOPE_GOLDENS redirects the output to a copy of tests/golden; it must be a copy, since some scripts read what
others wrote. Torch runs on one thread here, because two threads would add in another order.
"""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
GOLDEN = Path(os.environ.get("SINKSCOPE_GOLDENS", REPOSITORY / "tests" / "golden"))
ZOO = REPOSITORY / "models" / "zoo"

os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it once, on import
