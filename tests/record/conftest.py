import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models" / "record" / "src"), str(ROOT), str(ROOT / "tests")]

torch.set_num_threads(1)  # The models are small, so a second thread would cost more time than it saves.


def pytest_configure(config: pytest.Config) -> None:
    # peft asks for it.
    config.addinivalue_line("filterwarnings", "ignore:`is_gradient_checkpointing` is deprecated")
