import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models" / "record" / "src"), str(ROOT)]

torch.set_num_threads(1)  # the models are small: a second thread costs more than it saves
