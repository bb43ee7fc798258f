"""Checks the edits of the reference: their default parameters, and edits whose result equals that of another model.
Other edits are checked by goldens (test_writers.py)."""

from dataclasses import replace

import pytest
import torch

from models.reference.edits import Model, parse_edit, run_edited
from models.reference.model import Mask, architecture, forward
from models.reference.shapes import shapes

T = 8
CONFIG = {
    "model_type": "llama",
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "hidden_size": 34,
    "head_dim": 4,
    "intermediate_size": 12,
    "vocab_size": 16,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}


def make_model(T: int, layers: int) -> tuple[Model, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    arch = architecture(CONFIG | {"num_hidden_layers": layers})
    weights = {
        name: torch.randn(*shape, generator=generator, dtype=torch.float64) / 3 for name, shape in shapes(arch).items()
    }
    return (Model("llama", arch, weights, [0] * arch.L), torch.randint(arch.V, (T,), generator=generator))


def are_equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(x.nan_to_num(-1), b[name].nan_to_num(-1)) for name, x in a.items())


@pytest.mark.parametrize(
    ("edit", "parameter", "standard", "other"),
    [
        ("quantize(what=hidden,bits=3)", "by", "token", "tensor"),
        ("quantize(what=hidden,bits=3,by=group)", "group", 32, 33),
        ("quantize(what=hidden,bits=3)", "symmetric", "yes", "no"),
        ("quantize(what=keys,bits=3)", "first", 0, 1),
        ("quantize(what=keys,bits=3,by=tensor)", "prompt", T, 2),
        ("quantize(what=weights,bits=3)", "by", "token", "tensor"),
        ("quantize(what=weights,bits=3,by=group)", "group", 32, 33),
        ("quantize(what=weights,bits=3)", "symmetric", "yes", "no"),
        ("evict(policy=tova,budget=5)", "first", 0, 1),
        ("evict(policy=tova,budget=5)", "recent", 1, 2),
        ("evict(policy=h2o,budget=6)", "recent", 3, 4),
        ("evict(policy=vatp,budget=6)", "recent", 3, 2),
        ("evict(policy=random,budget=5)", "seed", 1, 2),
        ("evict(policy=first,budget=5)", "positions", "text", "cache"),
        ("evict(policy=snapkv,budget=3,prompt=22)", "queries", 16, 15),
        ("evict(policy=snapkv,budget=9,prompt=22,queries=4)", "pool", 5, 1),
        ("project(from=heads)", "key", 0, 1),
        ("project", "key", 0, 1),
        ("project(from=heads)", "direction", "tag", "random"),
        ("project", "from", "stream", "heads"),
        ("project(direction=random,from=heads)", "seed", 1, 2),
        ("park(head=0)", "key", 0, 1),
        ("scale_value(key=1)", "factor", 0, 1),
        ("scale_weight(matrix=o,layer=0,row=1,column=2)", "factor", 0, 1),
        ("clamp_channel(channel=3)", "to", "zero", "mean"),
        ("clamp_channel(channel=3,to=mean)", "prompt", T, 2),
        ("swap_positions(a=0,b=5)", "replace", "no", "yes"),
    ],
)
def test_an_absent_parameter_has_its_default(edit: str, parameter: str, standard: str | int, other: str | int) -> None:
    model, tokens = make_model(24 if "snapkv" in edit else T, 1)
    beginning = edit.removesuffix(")") + ("," if "(" in edit else "(")
    by_default, by_argument, by_other_argument = (
        run_edited(model, tokens, [parse_edit(text)])
        for text in (edit, f"{beginning}{parameter}={standard})", f"{beginning}{parameter}={other})")
    )
    assert are_equal(by_default, by_argument) and not are_equal(by_default, by_other_argument)


def test_the_edit_mask_equals_a_model_with_this_window() -> None:
    model, tokens = make_model(T, 2)
    for arch, edits in (
        (model.arch, []),
        (replace(model.arch, mask=Mask("window", 3, first=2)), [parse_edit("mask(first=2,recent=3)")]),
    ):
        expected, result = forward(arch, model.weights, tokens), run_edited(model, tokens, edits)
        for name in ("q", "k", "v", "att", "hidden", "logits"):
            torch.testing.assert_close(result[name], getattr(expected, name), rtol=0, atol=1e-12)
    baseline = run_edited(model, tokens, [])
    masked_head = run_edited(model, tokens, [parse_edit("mask(first=0,recent=2,layer=1,head=1)")])
    assert torch.equal(masked_head["att"][0], baseline["att"][0])
    assert torch.equal(masked_head["att"][1, 0], baseline["att"][1, 0])
    assert masked_head["seen"][1, 1].tolist() == [1.0] + [2.0] * (T - 1)


@pytest.mark.parametrize("policy", ["tova", "lru", "h2o", "vatp", "random"])
def test_a_cache_keeps_its_first_keys_and_its_budget_for_any_number_of_recent_keys(policy: str) -> None:
    model, tokens = make_model(T, 1)
    result = run_edited(model, tokens, [parse_edit(f"evict(policy={policy},budget=5,first=2,recent=5)")])
    visible = result["att"][0, 0, -1] > 0
    assert visible[:2].all() and visible[-3:].all() and visible.sum() == 5
