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
SIZES: dict[str, Any] = dict(hidden_size=8192, num_hidden_layers=3, num_attention_heads=64,
                             intermediate_size=44, vocab_size=61)
GPT2_SIZES = dict(n_embd=8192, n_layer=3, n_head=64, vocab_size=61)
SIZES_WITHOUT_F = {key: value for key, value in SIZES.items() if key != "intermediate_size"}
GPT_NEO_SIZES = dict(hidden_size=8192, num_layers=24, num_heads=64, vocab_size=61)
OPT_SIZES = SIZES_WITHOUT_F | {"ffn_dim": 44}
FAMILIES: dict[str, tuple[type[transformers.PreTrainedConfig], dict[str, Any]]] = {
    "llama": (transformers.LlamaConfig, SIZES),
    "gpt2": (transformers.GPT2Config, GPT2_SIZES),
    "gpt_bigcode": (transformers.GPTBigCodeConfig, GPT2_SIZES),
    "gptj": (transformers.GPTJConfig, GPT2_SIZES),
    "codegen": (transformers.CodeGenConfig, GPT2_SIZES),
    "gpt_neox": (transformers.GPTNeoXConfig, SIZES),
    "gpt_neo": (transformers.GPTNeoConfig, GPT_NEO_SIZES),
    "opt": (transformers.OPTConfig, OPT_SIZES),
    "mistral": (transformers.MistralConfig, SIZES),
    "mixtral": (transformers.MixtralConfig, SIZES),
    "qwen2": (transformers.Qwen2Config, SIZES),
    "qwen2_moe": (transformers.Qwen2MoeConfig, SIZES),
    "qwen3": (transformers.Qwen3Config, SIZES),
    "qwen3_moe": (transformers.Qwen3MoeConfig, SIZES),
    # In these two, every fourth layer has attention.
    "qwen3_next": (transformers.Qwen3NextConfig, SIZES | {"num_hidden_layers": 4}),
    "qwen3_5_text": (transformers.Qwen3_5TextConfig, SIZES | {"num_hidden_layers": 4}),
    "lfm2": (transformers.Lfm2Config, SIZES),
    "falcon_h1": (transformers.FalconH1Config, SIZES),
    "olmo2": (transformers.Olmo2Config, SIZES),
    "olmo3": (transformers.Olmo3Config, SIZES),
    "seed_oss": (transformers.SeedOssConfig, SIZES),
    "ernie4_5": (transformers.Ernie4_5Config, SIZES),
    # helium has 20 groups of queries by default, so it needs 20 heads.
    "helium": (transformers.HeliumConfig, SIZES | {"hidden_size": 2560, "num_attention_heads": 20}),
    "stablelm": (transformers.StableLmConfig, SIZES),
    "starcoder2": (transformers.Starcoder2Config, SIZES),
    "phi": (transformers.PhiConfig, SIZES),
    "phi3": (transformers.Phi3Config, SIZES),
    "olmo": (transformers.OlmoConfig, SIZES),
    "smollm3": (transformers.SmolLM3Config, SIZES),
    "granite": (transformers.GraniteConfig, SIZES),
    "olmoe": (transformers.OlmoeConfig, SIZES),
    "granitemoe": (transformers.GraniteMoeConfig, SIZES),
    "exaone4": (transformers.Exaone4Config, SIZES),
    "cohere": (transformers.CohereConfig, SIZES),
    "cohere2": (transformers.Cohere2Config, SIZES),
    "glm": (transformers.GlmConfig, SIZES),
    "glm4": (transformers.Glm4Config, SIZES),
    "nemotron": (transformers.NemotronConfig, SIZES),
    "hunyuan_v1_dense": (transformers.HunYuanDenseV1Config, SIZES),
    "hunyuan_v1_moe": (transformers.HunYuanMoEV1Config, SIZES),
    "gemma2": (transformers.Gemma2Config, SIZES),
    "gemma3_text": (transformers.Gemma3TextConfig, SIZES),
    # By default it has per-layer embeddings, which the core refuses.
    "gemma4_text": (transformers.Gemma4TextConfig, SIZES | {"hidden_size_per_layer_input": 0}),
    "falcon": (transformers.FalconConfig, SIZES_WITHOUT_F),
    "bloom": (transformers.BloomConfig,
              dict(hidden_size=8192, n_layer=3, n_head=64, vocab_size=61)),
    "mpt": (transformers.MptConfig, dict(d_model=8192, n_layers=3, n_heads=64, vocab_size=61)),
    # The core refuses a gpt_oss config without rotary parameters.
    "gpt_oss": (transformers.GptOssConfig, SIZES | {
        "rope_parameters": {"rope_type": "default", "rope_theta": 150000.0}}),
    "bert": (transformers.BertConfig, SIZES),
    "deepseek_v2": (transformers.DeepseekV2Config, SIZES | {"num_experts_per_tok": 6}),
    "deepseek_v3": (transformers.DeepseekV3Config, SIZES | {"num_attention_heads": 128}),
    "granite_swa": (transformers.GraniteSWAConfig, SIZES),
    "mimo_v2_flash": (transformers.MiMoV2FlashConfig, SIZES),
    "apertus": (transformers.ApertusConfig, SIZES),
    "phimoe": (transformers.PhimoeConfig, SIZES),
    "dots1": (transformers.Dots1Config, SIZES | {
        "n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2}),
}


def main() -> None:
    defaults: dict[str, Any] = {}
    common_keys = transformers.PreTrainedConfig().to_dict().keys() - {"tie_word_embeddings"}
    for family, (config, sizes) in FAMILIES.items():
        config_object = config(**sizes)
        # JSON has no infinity; transformers writes an object such as {"__float__": "Infinity"} instead.
        json_values = json.loads(config_object.to_json_string(use_diff=False))
        filled_in = {key: json_values[key] if isinstance(value, (list, tuple)) else value
                for key, value in config_object.to_dict().items()
                if key not in sizes and key not in common_keys}
        defaults[family] = {"given": {"model_type": family} | sizes, "defaults": filled_in}
    write_json(GOLDEN / "defaults.json",
               {"written_by": {"script": "models/reference/goldens/write_defaults.py",
                               "transformers": transformers.__version__}, "families": defaults})


if __name__ == "__main__":
    main()
