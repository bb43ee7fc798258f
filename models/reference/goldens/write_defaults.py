"""Writes tests/golden/defaults.json: the values that transformers uses for keys that a config omits.

    python -m models.reference.goldens.write_defaults

For every family, the file has a config that consists of sizes only, and all other keys with the values that
transformers fills in. The core must read a config with and without such a key as the same model.
"""

import json
from typing import Any

import transformers

from ..files import write_json
from . import GOLDEN

# Large enough for every default number of heads and experts. The script creates no weights.
SIZES: dict[str, Any] = dict(
    hidden_size=8192, num_hidden_layers=3, num_attention_heads=64, intermediate_size=44, vocab_size=61
)
GPT2_SIZES = dict(n_embd=8192, n_layer=3, n_head=64, vocab_size=61)
SIZES_WITHOUT_F = {key: value for key, value in SIZES.items() if key != "intermediate_size"}
# The file has the families in this order.
CONFIGS: tuple[type[transformers.PreTrainedConfig], ...] = (
    transformers.LlamaConfig,
    transformers.GPT2Config,
    transformers.GPTBigCodeConfig,
    transformers.GPTJConfig,
    transformers.CodeGenConfig,
    transformers.GPTNeoXConfig,
    transformers.GPTNeoConfig,
    transformers.OPTConfig,
    transformers.MistralConfig,
    transformers.MixtralConfig,
    transformers.Qwen2Config,
    transformers.Qwen2MoeConfig,
    transformers.Qwen3Config,
    transformers.Qwen3MoeConfig,
    transformers.Qwen3NextConfig,
    transformers.Qwen3_5TextConfig,
    transformers.Lfm2Config,
    transformers.FalconH1Config,
    transformers.Olmo2Config,
    transformers.Olmo3Config,
    transformers.SeedOssConfig,
    transformers.Ernie4_5Config,
    transformers.HeliumConfig,
    transformers.StableLmConfig,
    transformers.Starcoder2Config,
    transformers.PhiConfig,
    transformers.Phi3Config,
    transformers.OlmoConfig,
    transformers.SmolLM3Config,
    transformers.GraniteConfig,
    transformers.OlmoeConfig,
    transformers.GraniteMoeConfig,
    transformers.Exaone4Config,
    transformers.CohereConfig,
    transformers.Cohere2Config,
    transformers.GlmConfig,
    transformers.Glm4Config,
    transformers.NemotronConfig,
    transformers.HunYuanDenseV1Config,
    transformers.HunYuanMoEV1Config,
    transformers.GemmaConfig,
    transformers.Gemma2Config,
    transformers.Gemma3TextConfig,
    transformers.Gemma4TextConfig,
    transformers.FalconConfig,
    transformers.BloomConfig,
    transformers.MptConfig,
    transformers.GptOssConfig,
    transformers.BertConfig,
    transformers.DeepseekV2Config,
    transformers.DeepseekV3Config,
    transformers.GraniteSWAConfig,
    transformers.MiMoV2FlashConfig,
    transformers.ApertusConfig,
    transformers.PhimoeConfig,
    transformers.Dots1Config,
)
# The sizes of families for which SIZES do not fit.
OTHER_SIZES = {
    **dict.fromkeys(("gpt2", "gpt_bigcode", "gptj", "codegen"), GPT2_SIZES),
    "gpt_neo": dict(hidden_size=8192, num_layers=24, num_heads=64, vocab_size=61),
    "opt": SIZES_WITHOUT_F | {"ffn_dim": 44},
    # In these two, every fourth layer has attention.
    **dict.fromkeys(("qwen3_next", "qwen3_5_text"), SIZES | {"num_hidden_layers": 4}),
    # helium has 20 groups of queries by default, so it needs 20 heads.
    "helium": SIZES | {"hidden_size": 2560, "num_attention_heads": 20},
    # By default it has per-layer embeddings, which the core refuses.
    "gemma4_text": SIZES | {"hidden_size_per_layer_input": 0},
    "falcon": SIZES_WITHOUT_F,
    "bloom": dict(hidden_size=8192, n_layer=3, n_head=64, vocab_size=61),
    "mpt": dict(d_model=8192, n_layers=3, n_heads=64, vocab_size=61),
    "deepseek_v2": SIZES | {"num_experts_per_tok": 6},
    "deepseek_v3": SIZES | {"num_attention_heads": 128},
    "dots1": SIZES | {"n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2},
}


def main() -> None:
    defaults: dict[str, Any] = {}
    common_keys = transformers.PreTrainedConfig().to_dict().keys() - {"tie_word_embeddings"}
    for config in CONFIGS:
        family = config.model_type
        sizes = OTHER_SIZES.get(family, SIZES)
        config_object = config(**sizes)
        # JSON has no infinity; transformers writes an object such as {"__float__": "Infinity"} instead.
        json_values = json.loads(config_object.to_json_string(use_diff=False))
        default_values = {
            key: json_values[key] if isinstance(value, (list, tuple)) else value
            for key, value in config_object.to_dict().items()
            if key not in sizes and key not in common_keys
        }
        defaults[family] = {"given": {"model_type": family} | sizes, "defaults": default_values}
    write_json(
        GOLDEN / "defaults.json",
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
