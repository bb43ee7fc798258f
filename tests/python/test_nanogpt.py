"""Checks that the recipe of models/README.md converts a nanoGPT checkpoint to a file of the same model."""

import re
from pathlib import Path

import pytest
import torch
import transformers

F = torch.nn.functional

README = Path(__file__).parents[2] / "models" / "README.md"
ARGS = {"n_layer": 2, "n_head": 2, "n_embd": 16, "block_size": 12, "vocab_size": 20, "dropout": 0.0}


def random_state(bias: bool) -> dict:
    D, V = ARGS["n_embd"], ARGS["vocab_size"]
    shapes = {"transformer.wte.weight": (V, D), "transformer.wpe.weight": (ARGS["block_size"], D)}
    for layer in range(ARGS["n_layer"]):
        h = f"transformer.h.{layer}"
        linear = {"attn.c_attn": (3 * D, D), "attn.c_proj": (D, D), "mlp.c_fc": (4 * D, D), "mlp.c_proj": (D, 4 * D)}
        shapes |= {f"{h}.{name}.weight": shape for name, shape in linear.items()}
        shapes |= {f"{h}.ln_{i}.weight": (D,) for i in (1, 2)}
    shapes["transformer.ln_f.weight"] = (D,)
    if bias:
        shapes |= {
            name.replace("weight", "bias"): shape[:1]
            for name, shape in shapes.items()
            if ".w" not in name.replace(".weight", "")
        }
    generator = torch.Generator().manual_seed(int(bias))
    state = {name: torch.randn(shape, generator=generator) / 4 for name, shape in shapes.items()}
    state["lm_head.weight"] = state["transformer.wte.weight"]
    return state


def logits_of(state: dict, ids: "torch.Tensor") -> "torch.Tensor":
    """Computes nanoGPT's forward pass, with matrices as [out, in], exact GELU, and biases if the state has them."""

    def apply_linear(name: str, x: "torch.Tensor") -> "torch.Tensor":
        return F.linear(x, state[f"{name}.weight"], state.get(f"{name}.bias"))

    def apply_norm(name: str, x: "torch.Tensor") -> "torch.Tensor":
        return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state.get(f"{name}.bias"), 1e-5)

    x = state["transformer.wte.weight"][ids] + state["transformer.wpe.weight"][: len(ids)]
    for layer in range(ARGS["n_layer"]):
        h = f"transformer.h.{layer}"
        qkv = apply_linear(f"{h}.attn.c_attn", apply_norm(f"{h}.ln_1", x))
        heads = qkv.view(len(ids), 3 * ARGS["n_head"], -1).transpose(0, 1)
        head_outputs = F.scaled_dot_product_attention(*heads.chunk(3), is_causal=True)
        x = x + apply_linear(f"{h}.attn.c_proj", head_outputs.transpose(0, 1).reshape(len(ids), -1))
        x = x + apply_linear(f"{h}.mlp.c_proj", F.gelu(apply_linear(f"{h}.mlp.c_fc", apply_norm(f"{h}.ln_2", x))))
    return apply_norm("transformer.ln_f", x) @ state["lm_head.weight"].T


@pytest.mark.parametrize("bias", [False, True])
def test_the_recipe_writes_a_model_with_the_logits_of_nanogpt(
    bias: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = random_state(bias)
    model = {f"_orig_mod.{name}": x for name, x in state.items()}
    torch.save({"model": model, "model_args": ARGS | {"bias": bias}, "iter_num": 1}, tmp_path / "ckpt.pt")
    section = README.read_text().split("## A nanoGPT checkpoint")[1]
    recipe = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert recipe
    monkeypatch.chdir(tmp_path)
    exec(recipe[1], {})  # noqa: S102
    gpt2 = transformers.GPT2LMHeadModel.from_pretrained("FOLDER").eval()
    ids = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
    with torch.no_grad():
        logits = logits_of(state, ids)
        rounding = logits.abs().max().item() * 2**-23 * ARGS["n_layer"] * ARGS["n_embd"]  # of the sums of each layer
        assert (gpt2(ids[None]).logits[0] - logits).abs().max() < rounding
