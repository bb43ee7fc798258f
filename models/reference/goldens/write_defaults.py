"""Writes tests/golden/defaults.json: the values that transformers uses for keys that a config omits.

    python -m models.reference.goldens.write_defaults

For every family, the file has a config that consists of sizes only (`given`, which this script keeps), and all other
keys with the values that transformers fills in. The core must read a config with and without such a key as the same
model. The sizes are large enough for every default number of heads and experts; no weights are created. A family is
added by its `given`. qwen3_next and qwen3_5_text have four layers, since every fourth has attention; helium has 20
groups of queries by default, so it needs 20 heads; the core refuses the per-layer embeddings that gemma4_text has by
default.
"""

import json
from typing import Any

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from ..files import write_json
from . import GOLDEN

PATH = GOLDEN / "defaults.json"


def main() -> None:
    defaults: dict[str, Any] = {}
    common_keys = transformers.PreTrainedConfig().to_dict().keys() - {"tie_word_embeddings"}
    for family, row in json.loads(PATH.read_text())["families"].items():
        sizes = {key: value for key, value in row["given"].items() if key != "model_type"}
        config_object = CONFIG_MAPPING[family](**sizes)
        # JSON has no infinity; transformers writes an object such as {"__float__": "Infinity"} instead.
        json_values = json.loads(config_object.to_json_string(use_diff=False))
        default_values = {
            key: json_values[key] if isinstance(value, (list, tuple)) else value
            for key, value in config_object.to_dict().items()
            if key not in sizes and key not in common_keys
        }
        defaults[family] = {"given": {"model_type": family} | sizes, "defaults": default_values}
    write_json(
        PATH,
        {
            "written_by": {
                "script": "models/reference/goldens/write_defaults.py",
                "transformers": transformers.__version__,
            },
            "families": defaults,
        },
    )


if __name__ == "__main__":
    main()
