"""Train one twin: the same text, tokenizer, seed, order, initial weights and steps; one attention
operation.

    python -m models.train.twin softmax --corpora FOLDER --runs models/.runs
    python -m models.train.twin sigmoid --corpora FOLDER --runs models/.runs

An interrupted run goes on from its last checkpoint when the same command is given again.
"""

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from ..reference import metrics
from ..reference.model import Architecture, Weights, architecture, forward
from ..reference.operations import OPERATIONS
from .corpus import BOS_ID, END_ID, VOCABULARY, Corpus

STEPS = 4000
WARM_UP = 100
DECAY = (3200, 4000)  # the learning rate falls to a tenth between these steps
LEARNING_RATE = 3e-3
# Strong decay of the matrices brings the sink. The embedding is spared: a rare token's vector would
# decay between its few appearances while that of the first token, which is in every sequence, would
# not, and the first token would be the longest vector of the stream whatever the attention does.
WEIGHT_DECAY, EMBEDDING_DECAY = 1.0, 0.1
SEQUENCES, T = 16, 128
SAVE_EVERY = 200
LOG_EVERY = 100
PROBES, PROBE_T = 20, 64  # held-out sequences watched during training


def config(operation: str) -> dict[str, Any]:
    """The config.json of a twin: a plain LlamaForCausalLM, and the operation if it is another."""
    plain: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "hidden_size": 128,
        "head_dim": 32,
        "intermediate_size": 344,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": T,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": BOS_ID,
        "eos_token_id": END_ID,
        "torch_dtype": "float16",
    }
    if operation != "softmax":
        # A sigmoid of 0 is a half: without a bias each key starts with half of the weight, and T keys
        # with T/2. With -ln T a row starts with about 1, as in Ramapuram et al. (2025).
        parameters = {"bias": -math.log(T)} if operation == "sigmoid" else {}
        plain["sinkscope"] = {"attention": {"operation": operation, "parameters": parameters}}
    return plain


def initial_weights(arch: Architecture, seed: int) -> Weights:
    """N(0, 0.02^2) for every matrix, gains of 1; drawn in one order for every operation."""
    generator = torch.Generator().manual_seed(seed)

    def normal(out: int, width: int) -> Tensor:
        return torch.randn(out, width, generator=generator) * 0.02

    weights = {"model.embed_tokens.weight": normal(arch.V, arch.D)}
    for layer in range(arch.L):
        at = f"model.layers.{layer}."
        weights |= {
            at + "input_layernorm.weight": torch.ones(arch.D),
            at + "self_attn.q_proj.weight": normal(arch.H * arch.K, arch.D),
            at + "self_attn.k_proj.weight": normal(arch.G * arch.K, arch.D),
            at + "self_attn.v_proj.weight": normal(arch.G * arch.K, arch.D),
            at + "self_attn.o_proj.weight": normal(arch.D, arch.H * arch.K),
            at + "post_attention_layernorm.weight": torch.ones(arch.D),
            at + "mlp.gate_proj.weight": normal(arch.F, arch.D),
            at + "mlp.up_proj.weight": normal(arch.F, arch.D),
            at + "mlp.down_proj.weight": normal(arch.D, arch.F),
        }
        if arch.operation == "sink_logit":
            weights[at + "self_attn.sinks"] = torch.zeros(arch.H)
    weights["model.norm.weight"] = torch.ones(arch.D)
    if not arch.tied:
        weights["lm_head.weight"] = normal(arch.V, arch.D)
    return weights


def decay(name: str, weight: Tensor) -> float:
    """The weight decay of a tensor; gains would be pulled to 0, which is not what it is for."""
    if weight.dim() < 2:
        return 0.0
    return EMBEDDING_DECAY if "embed" in name else WEIGHT_DECAY


def learning_rate(step: int) -> float:
    """Linear warm-up, constant, a linear fall to a tenth."""
    if step < WARM_UP:
        return LEARNING_RATE * (step + 1) / WARM_UP
    begin, end = DECAY
    fallen = min(1.0, max(0, step - begin) / (end - begin))
    return LEARNING_RATE * (1 - 0.9 * fallen)


def text_loss(arch: Architecture, weights: Weights, text: Tensor) -> Tensor:
    """Mean loss of text [N, T+1], every token after the first predicted from those before it."""
    logits = forward(arch, weights, text[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


@torch.no_grad()
def probe(arch: Architecture, weights: Weights, ids: Tensor) -> dict[str, float]:
    """What a reader would see if the model were opened now."""
    trace = forward(arch, weights, ids)
    alphas = metrics.alpha(OPERATIONS[arch.operation].share(trace.att))
    return {
        "held_out_loss": round(metrics.loss(trace.logits, ids).mean().item(), 4),
        "sink_1": round(metrics.sink(alphas)[0].item(), 2),
        "alpha_max": round(alphas.mean(0)[..., 0].max().item(), 4),
        "hidden_ratio": round(
            metrics.first_to_others(trace.hidden)[:, 1:].mean(0).max().item(), 3),
        "row_mass": round(metrics.row_mass(trace.att).mean().item(), 4),
    }


def train(operation: str, seed: int, corpora: Path, runs: Path, device: str) -> None:
    corpus = Corpus(corpora, runs / "corpus")
    arch = architecture(config(operation))
    run = runs / f"{operation}-{seed}"
    run.mkdir(parents=True, exist_ok=True)
    checkpoint, log = run / "checkpoint.pt", run / "training.jsonl"

    weights = {n: w.to(device).requires_grad_() for n, w in initial_weights(arch, seed).items()}
    optimiser = torch.optim.AdamW(
        [{"params": [w for n, w in weights.items() if decay(n, w) == rate], "weight_decay": rate}
         for rate in (WEIGHT_DECAY, EMBEDDING_DECAY, 0.0)],
        lr=LEARNING_RATE, betas=(0.9, 0.95), fused=True,
    )
    start = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device)
        start = saved["step"]
        with torch.no_grad():
            for name, w in weights.items():
                w.copy_(saved["weights"][name])
        optimiser.load_state_dict(saved["optimiser"])
    # a run that broke off has logged steps that it is about to repeat
    lines = log.read_text().splitlines() if log.exists() else []
    log.write_text("".join(li + "\n" for li in lines if json.loads(li)["step"] <= start))

    compiled_loss = torch.compile(text_loss)  # with BF16 products, half the time of plain F32
    ids = corpus.held_out_ids(PROBES, PROBE_T).to(device)
    losses: list[float] = []
    began = time.monotonic()
    for step in range(start, STEPS):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step)
        text = corpus.batch(seed, step, SEQUENCES, T).to(device)
        with torch.autocast(device, torch.bfloat16):
            loss = compiled_loss(arch, weights, text)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
        done = step + 1
        if done % LOG_EVERY == 0 or done in (1, 10, 30):
            record = {"step": done, "loss": round(sum(losses) / len(losses), 4)}
            record |= probe(arch, weights, ids)
            with log.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(record, f"{time.monotonic() - began:.0f} s", flush=True)
            losses = []
        if done % SAVE_EVERY == 0:
            plain = {name: w.detach().cpu() for name, w in weights.items()}
            save_file(plain, run / f"step-{done:04d}.safetensors")
            state = {"step": done, "weights": plain, "optimiser": optimiser.state_dict()}
            torch.save(state, checkpoint.with_suffix(".new"))
            os.replace(checkpoint.with_suffix(".new"), checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("operation", choices=OPERATIONS)
    parser.add_argument("--corpora", type=Path, default=os.environ.get("SINKSCOPE_CORPORA"),
                        help="folder with the text files (default: $SINKSCOPE_CORPORA)")
    parser.add_argument("--runs", type=Path, default=Path("models/.runs"),
                        help="folder for checkpoints and logs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.corpora is None:
        parser.error("--corpora is missing and $SINKSCOPE_CORPORA is not set")
    torch.set_num_threads(arguments.threads)
    train(arguments.operation, arguments.seed, arguments.corpora, arguments.runs,
          arguments.device)


if __name__ == "__main__":
    main()
