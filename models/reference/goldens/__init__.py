"""The scripts that write the goldens of tests/golden, from which the tests read the expected numbers.

$SINKSCOPE_GOLDENS redirects the output to a copy of tests/golden; it must be a copy, since some scripts read what
others wrote. Torch runs on one thread here, because the order of additions depends on the number of threads.
"""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
GOLDEN = Path(os.environ.get("SINKSCOPE_GOLDENS", REPOSITORY / "tests" / "golden"))
ZOO = REPOSITORY / "models" / "zoo"

os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it once, on import
