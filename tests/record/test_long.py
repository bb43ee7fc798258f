"""Compares Sink_1 and alpha_1 of a text of 1,024 tokens by the engine, which stores no maps, with those of transformers
in float32."""

import json
import shutil
from pathlib import Path

import numpy as np
import sinkscope
import torch
from engine import NEEDS_ENGINE, ROOT, measure_lines
from sinkscope.__main__ import main
from transformers import LlamaConfig, LlamaForCausalLM
from truth import rounding_of

TWIN = ROOT / "models" / "zoo" / "softmax"
T = 1024
EPS = [0.005, 0.01, 0.02, 0.05, 0.1]


def write_model(folder: Path) -> None:
    """Writes a random model with the tokenizer of the softmax model. Its weights are so large that the heads differ."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2 * T,
        initializer_range=0.4,
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TWIN / name, folder)


@NEEDS_ENGINE
def test_sinks_of_a_long_text_equal_those_of_transformers(tmp_path: Path) -> None:
    model, texts, out = tmp_path / "model", tmp_path / "texts.json", tmp_path / "r.safetensors"
    write_model(model)
    passages = json.loads((ROOT / "models" / "zoo" / "heldout-long.json").read_text())
    texts.write_text(json.dumps([" ".join(passages)]))
    size = ["--tokens", str(T), "--eps", ",".join(map(str, EPS))]
    files = ["--texts", str(texts), "--out", str(out)]
    assert main(["record", str(model), *files, *size, "--device", "cpu"]) == 0
    engine = measure_lines(model, texts, *size, "--sequences", "1")
    result = sinkscope.Recording.open(out)
    assert engine["metrics"]["alpha"]["shape"] == [3, 4, T]
    alpha = np.array(engine["metrics"]["alpha"]["mean"]).reshape(12, T)[:, 0]
    bound = rounding_of(alpha, 64)  # the width of a token's vector
    assert np.abs(alpha - result["mean.alpha"].reshape(12, T)[:, 0]).max() <= bound
    # The thresholds separate the heads, and no head is so close to a threshold that rounding decides.
    assert np.abs(alpha[:, None] - EPS).min() > bound
    sinks = [entry["metrics"]["sink_ratio"]["mean"][0] for entry in engine["byEps"]]
    assert len(set(sinks)) >= 3
    assert np.abs(np.array(sinks) - result["mean.sink_ratio"][:, 0]).max() <= rounding_of(1)
