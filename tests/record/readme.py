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
T, MOST_PARAMETERS, TOLERANCE = 32, 4_000_000, 1e-5
# Settings that make a config small, by their names in configs.
SMALL = {
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


def families() -> dict[str, str]:
    """Returns the name of a class for each model type: the first that exists of a causal language model, a masked
    language model, a sequence-to-sequence model and an image classifier."""
    found: dict[str, str] = {}
    for mapping in (
        "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
        "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
        "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    ):
        for name, made in getattr(tf.models.auto.modeling_auto, mapping).items():
            found.setdefault(name, made if isinstance(made, str) else made[0])
    return found


def small(name: str, made: str) -> Any:
    kind = tf.CONFIG_MAPPING[name]
    has = kind()
    sizes = {key: value for key, value in SMALL.items() if hasattr(has, key)}
    for key in ("num_key_value_heads", "sliding_window", "q_lora_rank"):
        if getattr(has, key, 0) is None:
            sizes.pop(key, None)
    if getattr(has, "layer_types", None):
        sizes["layer_types"] = list(has.layer_types[:4])
    if getattr(has, "pad_token_id", None) is not None:
        sizes["pad_token_id"] = 0
    config = kind(**sizes)
    if hasattr(config, "is_decoder"):
        config.is_decoder = config.is_decoder or "CausalLM" in made
    model_class = getattr(tf, made)
    with torch.device("meta"):
        n = sum(p.numel() for p in model_class(config).parameters())
    if n > MOST_PARAMETERS:
        raise ValueError(
            f"not tried: the config makes no small model ({n / 1e6:.0f} million parameters)"
        )
    torch.manual_seed(5)
    return model_class(config).eval()


def apart(found: Any, attentions: Any, both: bool) -> float:
    """Returns the largest difference of alpha from alpha of these maps, whose shares are computed as
    `sinkscope.metrics.part_of_row` does."""
    n = found["mean.alpha"].shape[-1]
    att = torch.stack([x[0] for x in attentions if x is not None and x.shape[-2:] == (n, n)]).double()
    sums = att.sum(-1, keepdim=True)
    if found.model["operation"] == "sink_logit" and (sums - 1).abs().max() < 1e-4:
        raise LookupError  # Granite SWA scales its output by the sink's share, and returns weights without it
    share = att / (sums + 1e-8)
    alpha = share.sum(-2) / (n if both else torch.arange(n, 0, -1))
    return (torch.from_numpy(found["mean.alpha"]) - alpha).abs().max().item()


def row(name: str, made: str) -> tuple[str, str] | None:
    """Returns the row of a family, its name and its result; None if a small config makes no model."""
    import sinkscope

    try:
        model = small(name, made)
    except Exception:
        return None
    prompt: Any = torch.randint(5, 97, (1, T), generator=torch.Generator().manual_seed(1))
    inputs = {"input_ids": prompt}
    if "Image" in made:
        inputs = {"pixel_values": torch.randn(1, 3, 24, 24, generator=torch.Generator().manual_seed(1))}
    try:
        with torch.no_grad():  # the pass fails if the sizes of the small config do not fit each other
            model(**inputs, **({"decoder_input_ids": prompt} if model.config.is_encoder_decoder else {}))
    except Exception:
        return None
    try:
        found = sinkscope.record(model, None, [inputs], tokens=None, progress=False)
    except sinkscope.attention.UnsupportedModel as error:
        return name, f"refused: {error}"
    except Exception as error:
        return name, f"fails: {type(error).__name__}: {str(error).splitlines()[0][:90]}"
    both = found.model["mask"]["kind"] == "bidirectional"
    try:
        off = apart(found, run64(model, **inputs).attentions, both)
        said = f"alpha within {off:.0e}"
        if off >= TOLERANCE:  # in float32, transformers' own results may differ from those in float64 by as much
            model.set_attn_implementation("eager")
            with torch.no_grad():
                same = apart(found, model(**inputs, output_attentions=True).attentions, both)
            said = f"alpha within {same:.0e} of eager float32, which is {off:.0e} from float64"
            off = same
    except LookupError:
        return name, "recorded; the eager maps of transformers leave out the share of the sink"
    except Exception as error:
        return name, f"recorded; transformers gives no eager maps to compare ({type(error).__name__})"
    which = (
        f", attention in {found.model['L']} of {found.blocks} layers"
        if found.blocks > found.model["L"]
        else ""
    )
    return name, f"{'ok' if off < TOLERANCE else 'OFF'}: {said}{which}"


def written(rows: list[tuple[str, str]]) -> str:
    """Returns the text of the README with these rows in the table."""
    lines = [f"| {name} | {said.replace('|', chr(92) + '|')} |" for name, said in rows]
    recorded = sum(not said.startswith(("refused", "fails")) for _, said in rows)
    head = (
        f"{len(rows)} families, {recorded} recorded (transformers {tf.__version__}, torch "
        f"{torch.__version__.split('+')[0]}, one random prompt each; `python tests/record/readme.py`):"
    )
    before, rest = README.read_text().split(BEGIN)
    table = "\n".join([BEGIN, "", head, "", "| family | result |", "|---|---|", *lines, "", END])
    return before + table + rest.split(END)[1]


def without_digits(text: str) -> dict[str, str]:
    """Returns the rows of the table by family, without the differences of alpha, which depend on the processor."""
    rows = re.findall(r"^\| (\S+) \| (.*) \|$", text.split(BEGIN)[1].split(END)[0], re.M)
    return {name: re.sub(r"(within|is) \S+?(?=[,\s]|$)", r"\1", said) for name, said in rows if name != "family"}


def main(wanted: list[str]) -> int:
    import sinkscope.attention  # noqa: F401

    warnings.simplefilter("ignore")
    tf.logging.set_verbosity_error()
    torch.set_num_threads(1)
    is_check = wanted == ["--check"]
    wanted = [] if is_check else wanted
    rows = []
    for name, made in sorted(families().items()):
        if wanted and name not in wanted:
            continue
        found = row(name, made)
        if found:
            rows.append(found)
            print(*found, sep=": ", flush=True)
        gc.collect()
    wrong = any("OFF" in said for _, said in rows)
    if is_check:
        ours, theirs = without_digits(written(rows)), without_digits(README.read_text())
        others = [name for name, said in theirs.items() if ours.get(name) != said]
        for name in others:
            print(f"{name}: expected {theirs[name]}, found {ours.get(name, 'no such family')}")
        wrong = wrong or len(others) > 0
        print(f"{len(theirs) - len(others)} passed, {len(others)} failed")
    elif not wanted:
        README.write_text(written(rows))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
