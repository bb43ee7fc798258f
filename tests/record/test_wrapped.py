"""Checks that a model inside other modules is observed as if it were alone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from families import FAMILIES, make_inputs, record
from sentences import refused
from sinkscope.attention import UnsupportedModel, unwrap
from torch import nn
from truth import alpha64, eager64, rounding_of, tolerance_of


class Wrapper(nn.Module):
    """A user's module that wraps a model and has its config."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner, self.config = model, model.config

    def forward(self, **inputs: torch.Tensor) -> Any:
        return self.inner(**inputs)


class BareWrapper(nn.Module):
    """A user's module that wraps a model, has no config, and names the ids differently."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        return self.inner(input_ids=idx).logits


def add_lora(model: nn.Module) -> nn.Module:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    lora_model = peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"], r=2))
    with torch.no_grad():
        for name, x in lora_model.named_parameters():
            if "lora_B" in name:
                x.normal_(0, 0.3)
    return lora_model


class ConfiguredWrapper(Wrapper):
    """A user's module with a `config` of its own, whose sizes are not those of the wrapped model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.config = SimpleNamespace(hidden_size=999, vocab_size=5, model_type="mine")


WRAPPERS = {
    "own": Wrapper,
    "own config": ConfiguredWrapper,
    "parallel of own of own": lambda m: nn.DataParallel(ConfiguredWrapper(Wrapper(m))),
    "sequential": nn.Sequential,
    "bare": BareWrapper,
    "parallel": nn.DataParallel,
    "lora": add_lora,
    "own of lora": lambda m: Wrapper(add_lora(m)),
    "compiled": lambda m: torch.compile(m, backend="eager"),
    "compiled own": lambda m: torch.compile(Wrapper(m), backend="eager"),
}


@pytest.mark.parametrize("wrapper", list(WRAPPERS))
@pytest.mark.parametrize("name", ["gpt_oss", "llama"])
def test_a_wrapped_model_gives_its_own_numbers(name: str, wrapper: str) -> None:
    family = FAMILIES[name]
    prompt = make_inputs(family, 1)[0]
    model = WRAPPERS[wrapper](family.make(family.implementations[0])).eval()
    ids = torch.tensor([prompt])
    inner = next(m for m in model.modules() if type(m).__name__ in ("LlamaForCausalLM", "GptOssForCausalLM"))
    att = eager64(inner, input_ids=ids)
    share = att / att.sum(-1, keepdim=True)
    result = record(model, [prompt])
    assert result.model["operation"] == ("sink_logit" if name == "gpt_oss" else "softmax")
    # A score of the last layer has the errors of the sums of all layers.
    tolerance = tolerance_of(share, result.model["D"] * result.model["L"])
    assert np.abs(result["0.alpha"] - alpha64(share)).max() < tolerance
    assert np.abs(result["0.row_mass"] - att.sum(-1).numpy()).max() < tolerance
    assert (result.model["L"], result.model["D"], result.model["V"]) == (3, 64, 97)
    assert result.model["family"] == name
    assert "0.hidden_norm" in result and "mean.loss_mean" in result


@pytest.fixture
def _process_group(tmp_path: Path) -> Iterator[None]:
    distributed = torch.distributed
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def fsdp(model: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    layer = type(model.model.layers[0])  # type: ignore[union-attr,index]
    return FullyShardedDataParallel(
        model, auto_wrap_policy=ModuleWrapPolicy({layer}), device_id=torch.device("cpu"), use_orig_params=True
    )


def fsdp2(model: nn.Module) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (1,))
    for layer in model.model.layers:  # type: ignore[union-attr]
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def ddp(model: nn.Module) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model)


@pytest.mark.usefixtures("_process_group")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrap", [ddp, fsdp, fsdp2])
@pytest.mark.parametrize("name", ["gpt_oss", "llama"])
def test_a_sharded_model_gives_its_own_numbers(name: str, wrap: Callable[[nn.Module], nn.Module]) -> None:
    family = FAMILIES[name]
    prompts = make_inputs(family, 2)
    plain_model = family.make(family.implementations[0])
    att = torch.stack([eager64(plain_model, input_ids=torch.tensor([ids])) for ids in prompts])
    share = att / att.sum(-1, keepdim=True)
    expected = record(plain_model, prompts)
    model = wrap(family.make(family.implementations[0])).eval()
    result = record(model, prompts)
    assert np.abs(result["mean.alpha"] - alpha64(share).mean(0)).max() < tolerance_of(share, result.model["D"])
    assert result.tensors.keys() == expected.tensors.keys()
    assert result.model == expected.model
    for key in ("mean.hidden_norm", "mean.loss_mean", "mean.row_mass"):
        assert np.allclose(result[key], expected[key], rtol=rounding_of(1, 3 * result.model["D"])), key


def test_unwrap_finds_the_model() -> None:
    model = FAMILIES["llama"].make("sdpa")
    assert unwrap(model) is model
    assert unwrap(nn.DataParallel(model)) is model
    assert unwrap(torch.compile(nn.DataParallel(model), backend="eager")) is model
    assert unwrap(self_referring := SelfReferringModule()) is self_referring and self_referring.call_count == 1


class SelfReferringModule(nn.Module):
    """A module whose base model is itself, so that a loop over base models would never end."""

    call_count = 0

    def get_base_model(self) -> nn.Module:
        self.call_count += 1
        assert self.call_count < 4
        return self


class Attention(nn.Module):
    """Attention that returns weights whose rows sum to 1 - `lost_share`."""

    def forward(self, x: torch.Tensor, lost_share: float) -> tuple[torch.Tensor, torch.Tensor]:
        T = x.shape[1]
        att = torch.ones(T, T).tril()
        att = (1 - lost_share) * att / att.sum(-1, keepdim=True)
        return att @ x, att.expand(1, 2, T, T)


class LeakyModel(nn.Module):
    def __init__(self, lost_share: float) -> None:
        super().__init__()
        self.embed, self.attention, self.lost_share = nn.Embedding(9, 4), Attention(), lost_share

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.attention(self.embed(input_ids), self.lost_share)[0]


def test_returned_weights_that_do_not_sum_to_1_are_rejected() -> None:
    ids = [[1, 2, 3, 4, 5]]
    assert record(LeakyModel(0.0), ids, tokens=5).model["operation"] == "softmax"
    with refused(UnsupportedModel):
        record(LeakyModel(0.1), ids, tokens=5)
