"""Writes the table of families of models/record/README.md: records a small random model of every family of transformers
that a small config can make, and compares the recording with the family's eager attention in float64.

    python tests/record/readme.py            # records all families and writes the table
    python tests/record/readme.py --check    # records all families, and fails if a row of the table differs
    python tests/record/readme.py llama t5   # prints the rows of these families
"""

import gc
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers as tf

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models" / "record" / "src"), str(ROOT / "tests" / "record")]

from truth import run64  # noqa: E402

README = ROOT / "models" / "record" / "README.md"
BEGIN, END = "<!-- families -->", "<!-- end of families -->"
# The number of tokens, the largest number of parameters of a model, and the largest accepted difference of alpha.
T, MAX_PARAMETERS, TOLERANCE = 32, 4_000_000, 1e-5
# Settings that make a config small, by their names in configs.
SMALL_SIZES = {
    "vocab_size": 97,
    "hidden_size": 64,
    "n_embd": 64,
    "d_model": 64,
    "dim": 64,
    "embedding_size": 32,
    "num_hidden_layers": 4,
    "n_layer": 4,
    "n_layers": 4,
    "num_layers": 4,
    "decoder_layers": 2,
    "encoder_layers": 2,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "n_inner": 96,
    "ffn_dim": 96,
    "d_ff": 96,
    "decoder_ffn_dim": 96,
    "encoder_ffn_dim": 96,
    "hidden_dim": 96,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "sliding_window": 8,
    "attention_window_size": 8,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "shared_expert_intermediate_size": 32,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
    "initializer_range": 0.2,
    "init_std": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
    "d_kv": 16,
    "mamba_d_state": 4,
    "mamba_n_heads": 4,
    "mamba_d_head": 32,
    "lru_width": 64,
    "attn_layer_indices": [1, 3],
    "image_size": 24,
    "patch_size": 4,
}


def class_names() -> dict[str, str]:
    """Returns the name of a class for each model type: the first that exists among those of causal language models,
    masked language models, sequence-to-sequence models and image classifiers."""
    names: dict[str, str] = {}
    for mapping in (
        "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
        "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
        "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    ):
        for name, class_name in getattr(tf.models.auto.modeling_auto, mapping).items():
            names.setdefault(name, class_name if isinstance(class_name, str) else class_name[0])
    return names


def make_small_model(name: str, class_name: str) -> Any:
    config_class = tf.CONFIG_MAPPING[name]
    default = config_class()
    sizes = {key: value for key, value in SMALL_SIZES.items() if hasattr(default, key)}
    for key in ("num_key_value_heads", "sliding_window", "q_lora_rank"):
        if getattr(default, key, 0) is None:
            sizes.pop(key, None)
    if getattr(default, "layer_types", None):
        sizes["layer_types"] = list(default.layer_types[:4])
    if getattr(default, "pad_token_id", None) is not None:
        sizes["pad_token_id"] = 0
    config = config_class(**sizes)
    if hasattr(config, "is_decoder"):
        config.is_decoder = config.is_decoder or "CausalLM" in class_name
    model_class = getattr(tf, class_name)
    with torch.device("meta"):
        n = sum(p.numel() for p in model_class(config).parameters())
    if n > MAX_PARAMETERS:
        raise ValueError(
            f"not tried: the config makes no small model ({n / 1e6:.0f} million parameters)"
        )
    torch.manual_seed(5)
    return model_class(config).eval()


def alpha_difference(recording: Any, attentions: Any, is_bidirectional: bool) -> float:
    """Returns the largest difference of the recording's alpha from that of the maps, computed on shares as
    `sinkscope.metrics.part_of_row` defines them."""
    n = recording["mean.alpha"].shape[-1]
    att = torch.stack([x[0] for x in attentions if x is not None and x.shape[-2:] == (n, n)]).double()
    sums = att.sum(-1, keepdim=True)
    if recording.model["operation"] == "sink_logit" and (sums - 1).abs().max() < 1e-4:
        raise LookupError  # Granite SWA scales its output by the sink's share, and returns weights without it
    share = att / (sums + 1e-8)
    alpha = share.sum(-2) / (n if is_bidirectional else torch.arange(n, 0, -1))
    return (torch.from_numpy(recording["mean.alpha"]) - alpha).abs().max().item()


def family_row(name: str, class_name: str) -> tuple[str, str] | None:
    """Returns the row of a family, its name and its result; None if a small config makes no model."""
    import sinkscope

    try:
        model = make_small_model(name, class_name)
    except Exception:
        return None
    prompt: Any = torch.randint(5, 97, (1, T), generator=torch.Generator().manual_seed(1))
    inputs = {"input_ids": prompt}
    if "Image" in class_name:
        inputs = {"pixel_values": torch.randn(1, 3, 24, 24, generator=torch.Generator().manual_seed(1))}
    try:
        with torch.no_grad():  # the pass fails if the sizes of the small config do not fit each other
            model(**inputs, **({"decoder_input_ids": prompt} if model.config.is_encoder_decoder else {}))
    except Exception:
        return None
    try:
        recording = sinkscope.record(model, None, [inputs], tokens=None, progress=False)
    except sinkscope.attention.UnsupportedModel as error:
        return name, f"refused: {error}"
    except Exception as error:
        return name, f"fails: {type(error).__name__}: {str(error).splitlines()[0][:90]}"
    is_bidirectional = recording.model["mask"]["kind"] == "bidirectional"
    try:
        difference = alpha_difference(recording, run64(model, **inputs).attentions, is_bidirectional)
        result = f"alpha within {difference:.0e}"
        if difference >= TOLERANCE:  # in float32, transformers' own results may differ from those in float64 by as much
            model.set_attn_implementation("eager")
            with torch.no_grad():
                maps = model(**inputs, output_attentions=True).attentions
            eager_difference = alpha_difference(recording, maps, is_bidirectional)
            result = f"alpha within {eager_difference:.0e} of eager float32, which is {difference:.0e} from float64"
            difference = eager_difference
    except LookupError:
        return name, "recorded; the eager maps of transformers leave out the share of the sink"
    except Exception as error:
        return name, f"recorded; transformers gives no eager maps to compare ({type(error).__name__})"
    layers = (
        f", attention in {recording.model['L']} of {recording.blocks} layers"
        if recording.blocks > recording.model["L"]
        else ""
    )
    return name, f"{'ok' if difference < TOLERANCE else 'OFF'}: {result}{layers}"


def readme_text(rows: list[tuple[str, str]]) -> str:
    lines = [f"| {name} | {result.replace('|', chr(92) + '|')} |" for name, result in rows]
    recorded_count = sum(not result.startswith(("refused", "fails")) for _, result in rows)
    head = (
        f"{len(rows)} families, {recorded_count} recorded (transformers {tf.__version__}, torch "
        f"{torch.__version__.split('+')[0]}, one random prompt each; `python tests/record/readme.py`):"
    )
    before, after = README.read_text().split(BEGIN)
    table = "\n".join([BEGIN, "", head, "", "| family | result |", "|---|---|", *lines, "", END])
    return before + table + after.split(END)[1]


def results_without_digits(text: str) -> dict[str, str]:
    """Returns the rows of the table by family, without the differences of alpha, which depend on the processor."""
    rows = re.findall(r"^\| (\S+) \| (.*) \|$", text.split(BEGIN)[1].split(END)[0], re.M)
    return {name: re.sub(r"(within|is) \S+?(?=[,\s]|$)", r"\1", result) for name, result in rows if name != "family"}


def main(families: list[str]) -> int:
    import sinkscope.attention  # noqa: F401

    warnings.simplefilter("ignore")
    tf.logging.set_verbosity_error()
    torch.set_num_threads(1)
    is_check = families == ["--check"]
    families = [] if is_check else families
    rows = []
    for name, class_name in sorted(class_names().items()):
        if families and name not in families:
            continue
        row = family_row(name, class_name)
        if row:
            rows.append(row)
            print(*row, sep=": ", flush=True)
        gc.collect()
    has_failures = any("OFF" in result for _, result in rows)
    if is_check:
        current_results, committed_results = (
            results_without_digits(readme_text(rows)),
            results_without_digits(README.read_text()),
        )
        differing_names = [name for name, result in committed_results.items() if current_results.get(name) != result]
        for name in differing_names:
            print(f"{name}: expected {committed_results[name]}, found {current_results.get(name, 'no such family')}")
        has_failures = has_failures or len(differing_names) > 0
        print(f"{len(committed_results) - len(differing_names)} passed, {len(differing_names)} failed")
    elif not families:
        README.write_text(readme_text(rows))
    return int(has_failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
