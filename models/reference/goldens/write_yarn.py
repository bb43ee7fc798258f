"""Writes tests/golden/yarn.json: the frequencies of YaRN at the bounds of its ramp, from transformers.

python -m models.reference.goldens.write_yarn
"""

import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from ..files import write_json
from . import GOLDEN

WIDTH = 16
# Each bound of the ramp once inside the pairs, once beyond them, and once between two pairs without rounding.
CASES = [
    {"rope_theta": 10000.0, "original_max_position_embeddings": 2048, "beta_fast": 32.0, "beta_slow": 1.0},
    {"rope_theta": 10000.0, "original_max_position_embeddings": 16, "beta_fast": 32.0, "beta_slow": 1.0},
    {"rope_theta": 4.0, "original_max_position_embeddings": 2048, "beta_fast": 300.0, "beta_slow": 1.0},
    {
        "rope_theta": 500.0,
        "original_max_position_embeddings": 512,
        "beta_fast": 8.0,
        "beta_slow": 2.0,
        "truncate": False,
    },
]


def frequencies_of(case: dict[str, float]) -> list[float]:
    context = int(case["original_max_position_embeddings"])
    config = LlamaConfig(
        hidden_size=WIDTH,
        num_attention_heads=1,
        max_position_embeddings=4 * context,
        rope_parameters={"rope_type": "yarn", "factor": 4.0, **case},
    )
    frequencies, _ = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
    return [float(frequency) for frequency in frequencies]


def main() -> None:
    cases = [{**case, "frequencies": frequencies_of(case)} for case in CASES]
    write_json(
        GOLDEN / "yarn.json", {"transformers": transformers.__version__, "width": WIDTH, "factor": 4.0, "cases": cases}
    )


if __name__ == "__main__":
    main()
