"""Writes tests/golden/torch-*: tiny models as files of torch.save, and the numbers that transformers computes with
them.

    python -m models.reference.goldens.write_torch                  every case
    python -m models.reference.goldens.write_torch torch-llama-tied     these cases

The models are those of the goldens hf-*. Each file covers another feature of pytorch_model.bin: shared storages,
buffers of types that no weight has, a nested table, parameters.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

from . import GOLDEN
from .write_families import fill_weights
from .write_goldens import build_model, describe, run_hf_model, store, write_cases

State = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    source: str
    notes: str
    dtype: torch.dtype
    edit: Callable[[State, transformers.PreTrainedModel], object]  # returns what is saved
    pickle_protocol: int = 2


def write(name: str, case: Case) -> None:
    folder, source = GOLDEN / name, GOLDEN / case.source
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "config.json", folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source, attn_implementation="eager", dtype=torch.float32
    ).eval()
    with torch.no_grad():
        for w in model.parameters():
            w.copy_(w.to(case.dtype))  # the trace needs the file's rounded numbers
    tokens = load_file(source / "golden.safetensors")["tokens"].long()
    store(folder, run_hf_model(model, tokens))
    # One tensor per storage keeps tied weights tied in the file.
    storages = {w.data_ptr(): w.detach().to(case.dtype) for w in model.parameters()}
    state = {key: storages[w.data_ptr()] for key, w in model.state_dict(keep_vars=True).items()}
    torch.save(case.edit(state, model), folder / "pytorch_model.bin", pickle_protocol=case.pickle_protocol)
    describe(folder, model.config.model_type, "softmax", case.notes, script="write_torch.py")


def to_first_gpt2(state: State, model: transformers.PreTrainedModel) -> State:
    P = model.config.n_positions
    state = {key.removeprefix("transformer."): w for key, w in state.items() if key != "lm_head.weight"}
    for layer in range(model.config.n_layer):
        state[f"h.{layer}.attn.bias"] = torch.ones(P, P, dtype=torch.uint8).tril()[None, None]
        state[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    return state


def check_tied(state: State, _: transformers.PreTrainedModel) -> State:
    assert state["lm_head.weight"] is state["model.embed_tokens.weight"]
    return state


def nest(state: State, _: transformers.PreTrainedModel) -> dict[str, object]:
    return {"step": 7, "state_dict": {key: torch.nn.Parameter(w) for key, w in state.items()}}


def add_compile_prefixes(state: State, _: transformers.PreTrainedModel) -> dict[str, object]:
    # The factor adds digits that F32 lacks, so that a reader must round.
    model = {f"_orig_mod.{key}": w * (1 + 2.0**-40) for key, w in state.items()}
    return {"model": model, "model_args": {"n_layer": 2}, "iter_num": 5}


def add_neox_buffers(state: State, model: transformers.PreTrainedModel) -> State:
    K = model.config.hidden_size // model.config.num_attention_heads
    state["embed_out.weight"] = state.pop("lm_head.weight")  # the name in published files
    for layer in range(model.config.num_hidden_layers):
        prefix = f"gpt_neox.layers.{layer}.attention"
        state[f"{prefix}.bias"] = torch.ones(1, 1, 16, 16, dtype=torch.bool).tril()
        state[f"{prefix}.masked_bias"] = torch.tensor(-1e9)
        state[f"{prefix}.rotary_emb.inv_freq"] = torch.ones(K // 8)
    return state


CONV1D = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")
NANOGPT_SIZES = dict(n_layer=3, n_head=2, n_embd=24, vocab_size=61)


def write_nanogpt(name: str, prefix: str, has_bias: bool) -> None:
    """Writes a ckpt.pt as nanoGPT's train.py does, with the state of the optimizer. transformers computes the numbers
    with a GPT-2 that has the exact GELU, transposed matrices, and zeros for absent biases."""
    generator = torch.Generator().manual_seed(37)
    folder, block_size, T = GOLDEN / name, 32, 14
    folder.mkdir(parents=True, exist_ok=True)
    model = build_model(
        transformers.GPT2LMHeadModel, **NANOGPT_SIZES, n_positions=block_size, activation_function="gelu"
    ).eval()
    fill_weights(model, generator, 1.0)
    with torch.no_grad():
        for key, w in model.named_parameters():
            if key.endswith("bias") and not has_bias:
                w.zero_()
    tokens = torch.randint(NANOGPT_SIZES["vocab_size"], (T,), generator=generator)
    store(folder, run_hf_model(model, tokens))
    weights = {
        key: w.detach().T.contiguous() if key.endswith(CONV1D) else w.detach()
        for key, w in model.named_parameters()
        if has_bias or not key.endswith("bias")
    }
    gains = [torch.nn.Parameter(w.clone()) for w in weights.values() if w.ndim == 1]
    for gain in gains:
        gain.grad = torch.ones_like(gain)
    optimizer = torch.optim.AdamW(gains, lr=6e-4, betas=(0.9, 0.95))
    optimizer.step()
    weights["lm_head.weight"] = weights["transformer.wte.weight"]
    model_args = NANOGPT_SIZES | dict(block_size=block_size, bias=has_bias, dropout=0.2)
    torch.save(
        {
            "model": {prefix + key: w for key, w in weights.items()},
            "optimizer": optimizer.state_dict(),
            "model_args": model_args,
            "iter_num": 250,
            "best_val_loss": torch.tensor(1.7),
            "config": {"out_dir": "out", "learning_rate": 6e-4, "compile": True, "device": "cpu"},
        },
        folder / "ckpt.pt",
    )
    describe(
        folder,
        "nanogpt",
        "softmax",
        f"nanoGPT's ckpt.pt, {'with' if has_bias else 'without'} biases"
        f"{', names as torch.compile writes them' if prefix else ''}.",
        script="write_torch.py",
    )


NANOGPT_CASES = {"torch-nanogpt": ("_orig_mod.", False), "torch-nanogpt-bias": ("", True)}
CASES = {
    "torch-gpt2-plain": Case(
        "hf-gpt2-plain",
        "Names without a prefix; causal masks of bytes and numbers of rank 0, to be skipped.",
        torch.float32,
        to_first_gpt2,
    ),
    "torch-llama-tied": Case(
        "hf-llama-tied", "lm_head.weight and model.embed_tokens.weight share a storage.", torch.bfloat16, check_tied
    ),
    "torch-llama-nested": Case(
        "hf-llama-gqa",
        "F16 parameters, in a table beside a number; pickle protocol 4.",
        torch.float16,
        nest,
        pickle_protocol=4,
    ),
    "torch-llama-compiled": Case(
        "hf-llama-tied",
        "F64; names as torch.compile writes them, in a table beside others.",
        torch.float64,
        add_compile_prefixes,
    ),
    "torch-gpt_neox": Case(
        "hf-gpt_neox",
        "F16; masks of truths and inv_freq, as Pythia's files have them.",
        torch.float16,
        add_neox_buffers,
    ),
}


def main() -> None:
    write_cases(
        "Write tests/golden/torch-*",
        CASES | NANOGPT_CASES,
        lambda name, case: write(name, case) if isinstance(case, Case) else write_nanogpt(name, *case),
    )


if __name__ == "__main__":
    main()
