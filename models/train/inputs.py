"""Measures models with a sink on other inputs, with and without a start token, for the claims table.

    python -m models.train.inputs               measures the shipped models
    python -m models.train.inputs --smollm2     measures SmolLM2-135M-Instruct, which models/fetch/smollm2 fetches

The shipped models are measured by the reference, and the open model by transformers. models/train/inputs.json has
one line for each model, under "shipped models", "models with a bias key" and "open models", and for each seed of
"untrained models". The shipped
models are those that are causal, whose rows sum to 1, and whose first token is the sink of at least 10% of the heads.
`short` is left out, since it is the run of `softmax` at an earlier step.

Columns:
    alpha_INPUT_FIRST   mean over heads of alpha_1 above uniform attention, over SEQUENCES sequences of
                        T = 64 tokens; INPUT is text (held-out passages), random (tokens drawn evenly
                        from the vocabulary) or repeat (one drawn token again and again), and FIRST is
                        start (the text begins as the model's training texts did, with its start tokens or
                        its fixed token; of the open model, with its BOS) or none (with its own first
                        token)
    untrained_INPUT_start   alpha of the same seed's weights before any training, on these inputs
    sink_INPUT_FIRST    Sink_1^0.3 on these inputs, in percent
    sink_EPS_T          Sink_1^EPS over the 40 longer passages at T tokens, in percent
    fall_EPS            relative fall of Sink_1^EPS from the first length to the second, as a share; null if
                        Sink_1^EPS is 0 at the first length
    key_ratio           norm of the first key over the mean norm of the others, mean over sink heads
    cos_gap             mean cosine of queries with the first key minus that with the others, mean over sink heads
    first_layer         the first layer, from 0, with a sink head
    diagonal_KIND       mean over KIND heads of the attention that queries give their own key, above uniform attention;
                        KIND is sink or other
    KIND_heads          percent of heads that are sink heads, and percent whose own key gets more than 0.3 of the
                        attention (KIND is sink or diagonal)
    rank_KIND           mean stable rank of what such a head adds to the stream of the other tokens
    rank_rest           the same of sink heads, without what the first key contributes
A sink head has alpha_1 above 0.3 on average over the passages. Only shipped models have untrained_INPUT_start and the
columns from sink_EPS_T on.
Models with a bias key have instead, on the held-out passages:
    bias_alpha          mean over heads of alpha_* of the bias key, minus that of the same model before its training
    bias_sink           Sink_*^0.3, in percent
Untrained models have instead, on one token repeated T times:
    alpha_POSITIONS     mean over heads of alpha_1 above uniform attention
    error_POSITIONS     the largest difference between a weight and the closed form e^g(t-i) / sum_j e^g(t-j) of Gu et
                        al.'s propositions 1 to 3, where g is the bias of the positions
    alpha_falling       alpha_1 above uniform attention by that closed form, with the bias of `relative` negated
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sinkscope import metrics
from torch import Tensor

from ..reference.files import read_model
from ..reference.model import Architecture, Mask, Trace, Weights, architecture, distance_bias, forward
from ..reference.operations import OPERATIONS
from . import outcomes, protocol
from .recipe import Recipe, recipes
from .text import VOCABULARY
from .train import initial_weights

FILE = Path(__file__).with_name("inputs.json")
MIN_SINK_1 = 10.0  # in percent; models with less have no sink
SEQUENCES, T, SEED = 100, 64, 1
# The lengths T of sink_EPS_T. At 16 tokens alpha_1 of uniform attention would already exceed 0.2, the smallest eps;
# the longer passages have 120 tokens.
LENGTHS = (32, 120)
EPS = (0.2, 0.3, 0.4)
BIAS_KEY_MODELS = ("key-bias", "key-value-bias")
UNTRAINED_POSITIONS, UNTRAINED_SCALE = ("none", "relative", "alibi", "rotary"), 5.0


def sink_models(rows: list[dict[str, Any]]) -> list[str]:
    recipes_by_id = recipes()
    return [
        row["id"]
        for row in rows
        if row["id"] != "short"
        and row["measured"]["sink_1"] >= MIN_SINK_1
        and row["measured"]["row_mass_min"] == 1.0
        and recipes_by_id[row["id"]].sink_tokens == (1,)
        and recipes_by_id[row["id"]].training.objective == "next"
        and "mask" not in recipes_by_id[row["id"]].config.get("sinkscope", {})
        and "sliding_window" not in recipes_by_id[row["id"]].config
    ]


def first_alphas(arch: Architecture, weights: Weights, ids: Tensor) -> Tensor:
    return metrics.alpha(OPERATIONS[arch.operation].to_shares(forward(arch, weights, ids).att))[..., 0]


def uniform_alpha(length: int) -> float:
    """Returns alpha_1 of uniform attention under a causal mask."""
    return sum(1 / i for i in range(1, length + 1)) / length


def heads_geometry(arch: Architecture, weights: Weights, ids: Tensor) -> tuple[float, float]:
    """Returns the key ratio and the cosine gap of the heads with a sink, under a causal mask."""
    trace = forward(arch, weights, ids)
    is_sink = metrics.alpha(OPERATIONS[arch.operation].to_shares(trace.att))[..., 0].mean(0) > metrics.EPS
    keys = trace.k.repeat_interleave(arch.H // arch.G, -3)
    ratio = metrics.first_to_others(keys).mean(0)
    gap = metrics.cos_gap(trace.q, keys, torch.arange(ids.shape[1])).mean(0)
    return ratio[is_sink].mean().item(), gap[is_sink].mean().item()


def written_ranks(arch: Architecture, weights: Weights, trace: Trace, att: Tensor) -> Tensor:
    """Returns the stable rank of what each head adds to the stream of all tokens but the first, with the weights `att`.
    [sequences, L, H]"""
    outputs = att @ trace.v.repeat_interleave(arch.H // arch.G, -3)
    ranks = [
        metrics.stable_rank(
            outputs[:, layer, :, 1:]
            @ weights[f"model.layers.{layer}.self_attn.o_proj.weight"].view(arch.D, arch.H, -1).permute(1, 2, 0)
        )
        for layer in range(arch.L)
    ]
    return torch.stack(ranks, 1)


def heads_patterns(arch: Architecture, weights: Weights, ids: Tensor) -> dict[str, Any]:
    """Returns the first layer with a sink, and the diagonal shares and ranks of heads with a sink and without."""
    trace = forward(arch, weights, ids)
    share = OPERATIONS[arch.operation].to_shares(trace.att)
    alphas = metrics.alpha(share)[..., 0].mean(0)
    is_sink = alphas > metrics.EPS
    diagonals = metrics.diagonal(share)[..., 0].mean(0)
    rest = trace.att.clone()
    rest[..., 0] = 0
    ranks, rest_ranks = (written_ranks(arch, weights, trace, att).mean(0) for att in (trace.att, rest))
    columns = {
        "first_layer": metrics.first_layer(alphas, metrics.EPS),
        "sink_heads": 100 * is_sink.double().mean().item(),
        "diagonal_heads": 100 * (diagonals > metrics.EPS).double().mean().item(),
    }
    for name, kind in (("sink", is_sink), ("other", ~is_sink)):
        columns |= {
            f"diagonal_{name}": diagonals[kind].mean().item() - uniform_alpha(ids.shape[1]),
            f"rank_{name}": ranks[kind].mean().item(),
        }
    return columns | {"rank_rest": rest_ranks[is_sink].mean().item()}


def above_uniform(head_alphas: Tensor, ids: Tensor) -> float:
    return head_alphas.mean().item() - uniform_alpha(ids.shape[1])


def measure_inputs(inputs: dict[str, Tensor], alphas_of: Callable[[Tensor], Tensor]) -> dict[str, float]:
    columns = {}
    for name, ids in inputs.items():
        head_alphas = alphas_of(ids)
        columns[f"alpha_{name}"] = above_uniform(head_alphas, ids)
        columns[f"sink_{name}"] = metrics.sink(head_alphas[..., None]).item()
    return columns


def make_inputs(recipe: Recipe, texts: list[str]) -> dict[str, Tensor]:
    """Returns the six inputs of a model; random and repeated ones without start tokens differ only there."""
    bare_recipe = replace(recipe, training=replace(recipe.training, front=(), fixed_at=0))
    random_ids = torch.randint(VOCABULARY, (SEQUENCES, T), generator=torch.Generator().manual_seed(SEED))
    ids = outcomes.encode_texts(recipe, texts[:SEQUENCES], T)
    start_positions = [
        *range(len(recipe.training.front)),
        *([recipe.training.fixed_at - 1] if recipe.training.fixed_at else []),
    ]

    def add_start(tokens: Tensor) -> Tensor:
        tokens = tokens.clone()
        tokens[:, start_positions] = ids[:, start_positions]
        return tokens

    repeated_ids = random_ids[:, :1].expand(-1, T)
    return {
        "text_start": ids,
        "text_none": outcomes.encode_texts(bare_recipe, texts[:SEQUENCES], T),
        "random_start": add_start(random_ids),
        "random_none": random_ids,
        "repeat_start": add_start(repeated_ids),
        "repeat_none": repeated_ids,
    }


@torch.no_grad()
def measure_model(id: str) -> dict[str, Any]:
    recipe = recipes()[id]
    arch, weights = read_model(protocol.ZOO / id)
    short_texts, long_texts = (
        json.loads((protocol.ZOO / name).read_text()) for name in ("heldout.json", "heldout-long.json")
    )
    inputs = make_inputs(recipe, short_texts)
    columns: dict[str, Any] = {"model": id} | measure_inputs(inputs, lambda ids: first_alphas(arch, weights, ids))
    untrained = initial_weights(arch, recipe.seeds[0], recipe.training)
    for name in ("text_start", "random_start", "repeat_start"):
        columns[f"untrained_{name}"] = above_uniform(first_alphas(arch, untrained, inputs[name]), inputs[name])
    for length in LENGTHS:
        head_alphas = first_alphas(arch, weights, outcomes.encode_texts(recipe, long_texts, length))
        for eps in EPS:
            columns[f"sink_{eps}_{length}"] = metrics.sink(head_alphas[..., None], eps).item()
    for eps in EPS:
        first_sink, second_sink = (columns[f"sink_{eps}_{length}"] for length in LENGTHS)
        columns[f"fall_{eps}"] = 1 - second_sink / first_sink if first_sink else None
    columns["key_ratio"], columns["cos_gap"] = heads_geometry(arch, weights, inputs["text_start"])
    columns |= heads_patterns(arch, weights, inputs["text_start"])
    return round_columns(columns)


@torch.no_grad()
def measure_bias_key(id: str) -> dict[str, Any]:
    recipe = recipes()[id]
    arch, weights = read_model(protocol.ZOO / id)
    texts = json.loads((protocol.ZOO / "heldout.json").read_text())
    ids = outcomes.encode_texts(recipe, texts[:SEQUENCES], T)

    def bias_alphas(weights: Weights) -> Tensor:
        return metrics.alpha_bias(forward(arch, weights, ids).att_bias)

    alphas, first_alphas = (bias_alphas(w) for w in (weights, initial_weights(arch, recipe.seeds[0], recipe.training)))
    return round_columns(
        {
            "model": id,
            "bias_alpha": (alphas.mean() - first_alphas.mean()).item(),
            "bias_sink": metrics.sink(alphas).item(),
        }
    )


def repeated_weights(bias: Tensor) -> Tensor:
    """Returns the weights on a repeated token, whose scores differ by the bias of the positions alone."""
    return bias.masked_fill(~Mask().visible(T, bias.device), -torch.inf).softmax(-1)


@torch.no_grad()
def measure_untrained(seed: int) -> dict[str, Any]:
    """Measures alpha_1 above uniform attention on one token repeated T times, with random weights, for each position
    encoding. All values are equal then, so that every layer keeps all positions alike: what is left is the bias or the
    rotation of the positions (Gu et al. 2025, propositions 1 to 4). The weights are UNTRAINED_SCALE times as large as a
    training begins with, where scores are nearly 0."""
    columns: dict[str, Any] = {"seed": seed}
    for positions in UNTRAINED_POSITIONS:
        recipe = recipes()["softmax"]
        arch = architecture(recipe.config | {"sinkscope": {"positions": positions}})
        weights = {
            name: w * (UNTRAINED_SCALE if w.dim() > 1 else 1)
            for name, w in initial_weights(arch, seed, recipe.training).items()
        }
        ids = torch.full((1, T), 2 + seed)
        att = forward(arch, weights, ids).att
        columns[f"alpha_{positions}"] = metrics.alpha(att)[..., 0].mean().item() - uniform_alpha(T)
        if positions == "rotary":
            continue
        bias = distance_bias(arch, T, att)
        bias = torch.zeros(T, T) if bias is None else bias
        columns[f"error_{positions}"] = (att - repeated_weights(bias)).abs().max().item()
        if positions == "relative":
            columns["alpha_falling"] = metrics.alpha(repeated_weights(-bias))[..., 0].mean().item() - uniform_alpha(T)
    return round_columns(columns)


def round_columns(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: round(x, 4) + 0.0 if isinstance(x, float) else x for name, x in columns.items()}


@torch.no_grad()
def measure_smollm2() -> dict[str, Any]:
    """Measures SmolLM2 by transformers, with its dequantized weights, on the 40 longer passages. Adds the start token,
    which SmolLM2's tokenizer does not."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from ..reference.goldens.write_smollm2 import FETCHED
    from ..reference.goldens.write_smollm2 import FILE as WEIGHTS

    tokenizer = AutoTokenizer.from_pretrained(FETCHED, gguf_file=WEIGHTS)
    model = AutoModelForCausalLM.from_pretrained(
        FETCHED, gguf_file=WEIGHTS, dtype=torch.float32, attn_implementation="eager"
    )
    texts = json.loads((protocol.ZOO / "heldout-long.json").read_text())
    random_ids = torch.randint(len(tokenizer), (len(texts), T), generator=torch.Generator().manual_seed(SEED))
    bare_inputs = {
        "text": torch.tensor([tokenizer(text).input_ids[:T] for text in texts]),
        "random": random_ids,
        "repeat": random_ids[:, :1].expand(-1, T),
    }
    start_ids = torch.full((len(texts), 1), tokenizer.bos_token_id)
    inputs = {}
    for name, ids in bare_inputs.items():
        inputs |= {f"{name}_start": torch.cat([start_ids, ids[:, :-1]], 1), f"{name}_none": ids}

    def alphas_of(ids: Tensor) -> Tensor:
        return torch.cat(
            [
                torch.stack([metrics.alpha(att)[..., 0] for att in model(batch, output_attentions=True).attentions], 1)
                for batch in ids.split(10)
            ]
        )

    return round_columns({"model": "SmolLM2-135M-Instruct"} | measure_inputs(inputs, alphas_of))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smollm2", action="store_true", help="the open model, which is fetched first")
    torch.set_num_threads(1)
    if parser.parse_args().smollm2:
        group = {"open models": [measure_smollm2()]}
    else:
        rows = json.loads((protocol.ZOO / "index.json").read_text())
        group = {
            "shipped models": [measure_model(id) for id in sink_models(rows)],
            "models with a bias key": [measure_bias_key(id) for id in BIAS_KEY_MODELS],
            "untrained models": [measure_untrained(seed) for seed in range(1, 6)],
        }
    groups = (json.loads(FILE.read_text()) if FILE.exists() else {}) | group
    lists = ",\n".join(f'"{name}": [\n' + ",\n".join(map(json.dumps, units)) + "\n]" for name, units in groups.items())
    FILE.write_text(f"{{\n{lists}\n}}\n")


if __name__ == "__main__":
    main()
