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
from .write_goldens import describe, run_hf_model, store, write_cases

State = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    source: str
    final_norm: str
    notes: str
    dtype: torch.dtype
    edit: Callable[[State, transformers.PreTrainedModel], object]  # returns what is saved
    pickle_protocol: int = 2


def write(name: str, case: Case) -> None:
    folder, source = GOLDEN / name, GOLDEN / case.source
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "config.json", folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        for w in model.parameters():
            w.copy_(w.to(case.dtype))  # the trace needs the file's rounded numbers
    tokens = load_file(source / "golden.safetensors")["tokens"].long()
    store(folder, run_hf_model(model, model.get_submodule(case.final_norm), tokens))
    # One tensor per storage keeps tied weights tied in the file.
    storages = {w.data_ptr(): w.detach().to(case.dtype) for w in model.parameters()}
    state = {key: storages[w.data_ptr()] for key, w in model.state_dict(keep_vars=True).items()}
    torch.save(case.edit(state, model), folder / "pytorch_model.bin", pickle_protocol=case.pickle_protocol)
    describe(folder, model.config.model_type, "softmax", case.notes, script="write_torch.py")


def to_first_gpt2(state: State, model: transformers.PreTrainedModel) -> State:
    P = model.config.n_positions
    state = {key.removeprefix("transformer."): w for key, w in state.items()
             if key != "lm_head.weight"}
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
    model = {f"_orig_mod.{key}": w * (1 + 2.0 ** -40) for key, w in state.items()}
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


CASES = {
    "torch-gpt2-plain": Case(
        "hf-gpt2-plain", "transformer.ln_f",
        "Names without a prefix; causal masks of bytes and numbers of rank 0, to be skipped.",
        torch.float32, to_first_gpt2),
    "torch-llama-tied": Case(
        "hf-llama-tied", "model.norm",
        "lm_head.weight and model.embed_tokens.weight share a storage.", torch.bfloat16, check_tied),
    "torch-llama-nested": Case(
        "hf-llama-gqa", "model.norm", "F16 parameters, in a table beside a number; pickle protocol 4.",
        torch.float16, nest, pickle_protocol=4),
    "torch-llama-compiled": Case(
        "hf-llama-tied", "model.norm",
        "F64; names as torch.compile writes them, in a table beside others.", torch.float64, add_compile_prefixes),
    "torch-gpt_neox": Case(
        "hf-gpt_neox", "gpt_neox.final_layer_norm",
        "F16; masks of truths and inv_freq, as Pythia's files have them.", torch.float16, add_neox_buffers),
}


def main() -> None:
    write_cases("Write tests/golden/torch-*", CASES, write)


if __name__ == "__main__":
    main()
