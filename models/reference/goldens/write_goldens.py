"""Writes tests/golden: the numbers that the code under test must reproduce, computed by independent code.

    python -m models.reference.goldens.write_goldens            every case
    python -m models.reference.goldens.write_goldens hf-llama-gqa metrics      these cases

The goldens `hf-*` are computed by Hugging Face transformers in F32; `ref-*` and `twin-*` by the reference
of models/reference in F64, rounded to F32 only at the end; `metrics` by NumPy.
"""

import argparse
import json
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors
import tokenizers
import torch
import transformers
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file
from sinkscope import metrics
from tokenizers import Tokenizer
from torch import Tensor

from ..files import read_model, write_json, write_model
from ..model import Architecture, Trace, Weights, architecture, forward
from ..operations import OPERATIONS, Operation, Parameters
from ..shapes import shapes
from . import GOLDEN, ZOO
from .noise import normal

Case = TypeVar("Case")

T = 13
TWINS = ("softmax", "sigmoid")
TWIN_T = 20

# An element may differ by TOLERANCE times its tensor's largest magnitude, or by TOLERANCE if that magnitude is below 1.
TOLERANCE = 2e-5


def write_cases(description: str, cases: dict[str, Case], write: Callable[[str, Case], None]) -> None:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(cases))
    names = parser.parse_args().cases or list(cases)
    if unknown := set(names) - set(cases):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    for name in names:
        write(name, cases[name])
        size = sum(file.stat().st_size for file in (GOLDEN / name).iterdir())
        print(f"{name}: {size} bytes")


def machine_name() -> str:
    """Names the processor and the C library, by which torch chooses instructions and so the last bits."""
    cpu = Path("/proc/cpuinfo")
    vendor = re.search(r"vendor_id\s*: (\w+)", cpu.read_text()) if cpu.exists() else None
    return ", ".join(
        (
            platform.machine(),
            vendor[1] if vendor else "unknown",
            torch.backends.cpu.get_cpu_capability(),
            " ".join(platform.libc_ver()),
        )
    )


def describe(
    folder: Path, family: str, operation: str, notes: str, script: str = "write_goldens.py", **more: Any
) -> None:
    write_json(
        folder / "golden.json",
        {
            "written_by": {
                "script": f"models/reference/goldens/{script}",
                "torch": torch.__version__.split("+")[0],
                "transformers": transformers.__version__,
                "tokenizers": tokenizers.__version__,
                "safetensors": safetensors.__version__,
                "numpy": np.__version__,
                "machine": machine_name(),
            },
            "family": family,
            "operation": operation,
            "notes": notes,
            "tolerance": TOLERANCE,
        }
        | more,
    )


def store(folder: Path, tensors: dict[str, Tensor], file: str = "golden.safetensors") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {
            name: t.to(torch.float32 if t.is_floating_point() else torch.int32).contiguous()
            for name, t in tensors.items()
        },
        folder / file,
    )
    (folder / file).chmod(0o644)  # safetensors makes files private


def store_trace(folder: Path, tokens: Tensor, trace: Trace) -> None:
    store(folder, {"tokens": tokens, "loss": metrics.loss(trace.logits, tokens)} | trace.fields())


def draw_large_weights(name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Draws weights so large that attention is far from uniform. No gain is 1 and no bias is 0, so that code which
    skips one gives other results."""
    noise = normal(shape, generator)
    if name.endswith("sinks"):
        return noise
    if len(shape) == 1:
        return noise * 0.2 + (1.0 if name.endswith("weight") else 0.0)
    if any(part in name for part in ("wte", "wpe", "embed_tokens", "lm_head")):
        return noise * 0.5
    # The smaller dimension of every matrix, [out, in] or [in, out], is near the model's width. With this scale the
    # residual stream neither grows nor vanishes.
    return noise * 1.4 * min(shape) ** -0.5


# What reads the last hidden state, by its name in the families; the first one that a model has.
FINAL_NORMS = (
    "model.norm",
    "model.final_layernorm",
    "model.embedding_norm",
    "model.language_model.norm",
    "cls",
    "transformer.ln_f",
    "transformer.norm_f",
    "gpt_neox.final_layer_norm",
    "model.decoder.final_layer_norm",
    "model.decoder.project_out",
)


def run_hf_model(model: transformers.PreTrainedModel, tokens: Tensor) -> dict[str, Tensor]:
    """Runs a model of transformers. Returns tokens, logits, loss, att and hidden, the last before the final norm."""
    before_norm: list[Tensor] = []
    modules = dict(model.named_modules())
    final_norm = next(modules[name] for name in FINAL_NORMS if name in modules)
    hook = final_norm.register_forward_pre_hook(lambda _, inputs: before_norm.append(inputs[0]))
    with torch.no_grad():
        out = model(tokens[None], output_attentions=True, output_hidden_states=True)
    hook.remove()
    logits = out.logits[0]
    loss = torch.nn.functional.cross_entropy(logits[:-1], tokens[1:], reduction="none")
    hidden = [h[0] for h in out.hidden_states[:-1]] + [before_norm[0][0]]
    return {
        "tokens": tokens,
        "logits": logits,
        "loss": loss,
        "att": torch.cat(out.attentions),
        "hidden": torch.stack(hidden),
    }


def build_model(model: type[transformers.PreTrainedModel], **config: Any) -> transformers.PreTrainedModel:
    return model(model.config_class(**config, attn_implementation="eager"))


@dataclass(frozen=True)
class HfCase:
    model: type[transformers.PreTrainedModel]
    config: dict[str, Any]
    notes: str
    without_prefix: bool = False
    dtype: torch.dtype = torch.float32


def write_hf_case(name: str, case: HfCase) -> None:
    generator = torch.Generator().manual_seed(11)
    model = build_model(case.model, **case.config).eval()
    with torch.no_grad():
        for weight_name, w in model.named_parameters():
            w.copy_(draw_large_weights(weight_name, w.shape, generator))
    tokens = torch.randint(model.config.vocab_size, (T,), generator=generator)
    model.to(case.dtype)
    folder = GOLDEN / name
    (model.transformer if case.without_prefix else model).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if case.without_prefix:
        # The first published GPT-2 files have names without a prefix, and store the causal mask as a tensor.
        P = model.config.n_positions
        weights = load_file(folder / "model.safetensors")
        for layer in range(model.config.n_layer):
            weights[f"h.{layer}.attn.bias"] = torch.ones(P, P).tril()[None, None]
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        write_json(folder / "config.json", config | {"architectures": ["GPT2LMHeadModel"]})
    # Reads the model back, so that the numbers are those of the stored file.
    model = case.model.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    family = model.config.model_type
    expected = run_hf_model(model, tokens)
    store(folder, expected)
    error = reference_error(name, run_in_f64(*read_model(folder), tokens), expected)
    describe(folder, family, "softmax", case.notes, reference_error=error)


def reference_error(name: str, trace: Trace, expected: dict[str, Tensor]) -> float:
    """Returns the largest scaled difference between the reference and Hugging Face; raises an error above TOLERANCE."""
    largest_error = max(scaled_error(getattr(trace, field), expected[field]) for field in ("logits", "att", "hidden"))
    if largest_error > TOLERANCE:
        raise AssertionError(f"{name}: reference and Hugging Face differ by {largest_error:.2g}")
    return float(f"{largest_error:.2g}")


def scaled_error(actual: Tensor, expected: Tensor) -> float:
    return ((actual - expected).abs().max() / expected.abs().max().clamp_min(1)).item()


# goldens.json has the models of transformers, and the configs of the reference's.
MODELS: dict[str, Any] = json.loads(Path(__file__).with_name("goldens.json").read_text())


def hf_case(row: dict[str, Any]) -> HfCase:
    named = {"model": getattr(transformers, row["model"]), "dtype": getattr(torch, row.get("dtype", "float32"))}
    return HfCase(**row | named)


HF_CASES = {name: hf_case(row) for name, row in MODELS["transformers"].items()}


@torch.no_grad()
def run_in_f64(arch: Architecture, weights: Weights, tokens: Tensor) -> Trace:
    return forward(arch, {name: w.double() for name, w in weights.items()}, tokens)


# Operations without a case here: write_variants has smaller cases of them.
VARIANT_OPERATIONS = ("elu1_norm", "identity_norm", "elu1_kernel", "elu1_kernel_norm", "mlp_kernel", "mlp_kernel_norm")
# Other parameters than the defaults, so that code which ignores them gives other numbers.
REF_PARAMETERS = {
    "sigmoid": {"bias": -1.5},
    "softmax_scaled": {"sum": 0.4},
    "softmax_p": {"p": 3.0},
    "softpick": {"eps": 0.25},
    "softmax_clipped": {"zeta": 1.1, "gamma": -0.1},
}


def ref_config(family: str, operation: str) -> dict[str, Any]:
    config = dict(MODELS["reference"][family])
    if operation != "softmax":
        parameters = REF_PARAMETERS.get(operation, {}) if family == "llama" else {}
        config["sinkscope"] = {"attention": {"operation": operation, "parameters": parameters}}
    return config


def ref_shapes(arch: Architecture, config: dict[str, Any]) -> dict[str, torch.Size | tuple[int, ...]]:
    if arch.family == "llama":
        return dict(shapes(arch))
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config.from_dict(config))
    return {name.removeprefix("transformer."): w.shape for name, w in model.named_parameters()}


def write_ref_case(name: str, family: str, operation: str) -> None:
    folder = GOLDEN / name
    config = ref_config(family, operation)
    arch = architecture(config)
    generator = torch.Generator().manual_seed(7)
    weights = {
        weight_name: draw_large_weights(weight_name, torch.Size(shape), generator)
        for weight_name, shape in ref_shapes(arch, config).items()
    }
    write_model(folder, config, weights, torch.float32)
    tokens = torch.randint(arch.V, (T,), generator=generator)
    store_trace(folder, tokens, run_in_f64(arch, weights, tokens))
    describe(folder, family, operation, f"Random weights; {OPERATIONS[operation].formula}, computed in F64.")


def write_twin_case(operation: str) -> None:
    folder = GOLDEN / f"twin-{operation}"
    arch, weights = read_model(ZOO / operation)
    tokenizer = Tokenizer.from_file(str(ZOO / operation / "tokenizer.json"))
    text = "Once upon a time there was a little girl who lived with her grandmother near the sea."
    tokens = torch.tensor(tokenizer.encode(text).ids[:TWIN_T])
    trace = run_in_f64(arch, weights, tokens)
    store_trace(folder, tokens, trace)
    more: dict[str, Any] = {"model": f"models/zoo/{operation}", "text": text}
    if operation == "softmax":  # a plain Llama, so transformers can check the reference
        model = transformers.LlamaForCausalLM.from_pretrained(
            ZOO / operation, attn_implementation="eager", dtype=torch.float32
        )
        more["reference_error"] = reference_error("softmax twin", trace, run_hf_model(model, tokens))
    describe(folder, "llama", operation, "The stored F16 weights, computed in F64.", **more)


def write_metrics_case() -> None:
    folder = GOLDEN / "metrics"
    rng = np.random.default_rng(5)
    N, L, H, size, eps = 3, 2, 3, 16, metrics.EPS
    visible = np.tril(np.ones((size, size), bool))
    scores = rng.normal(0, 2.5, (N, L, H, size, size))
    scores[:, :, 0, :, 0] += 4  # one head in three attends to the first token
    exponentials = np.where(visible, np.exp(scores), 0)
    maps = {
        "stochastic": exponentials / exponentials.sum(-1, keepdims=True),
        "raw": np.where(visible, rng.uniform(0, 1, scores.shape) ** 3, 0),
        "signed": np.where(visible, rng.normal(0, 0.5, scores.shape), 0),
    }
    # Rounds to F32 before shares are computed, as the tests compute shares from the stored F32 maps.
    maps = {name: a.astype(np.float32).astype(np.float64) for name, a in maps.items()}
    for name in ("raw", "signed"):
        magnitudes = np.abs(maps[name])
        maps[f"{name}_share"] = magnitudes / (magnitudes.sum(-1, keepdims=True) + 1e-8)
    arrays: dict[str, np.ndarray] = {}
    for name, attention in maps.items():
        query_counts = np.arange(size, 0, -1)
        importance = (attention / query_counts).sum(axis=-2)
        metric1 = (importance > eps).mean(axis=(0, 1, 2)) * 100
        if np.abs(importance - eps).min() < 1e-5 * importance.max():
            raise AssertionError(f"{name}: a head lies so close to eps that rounding decides")
        if np.abs(metrics.alpha(torch.from_numpy(attention)).numpy() - importance).max() > 1e-12:
            raise AssertionError(f"{name}: the reference and NumPy differ in alpha")
        arrays |= {
            f"{name}.att": attention,
            f"{name}.importance": importance,
            f"{name}.metric1": metric1,
            f"{name}.row_mass": attention.sum(-1),
        }
    p = maps["stochastic"]
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    entropy[..., 1:] /= np.log(np.arange(2, size + 1))
    arrays["stochastic.entropy"] = entropy
    folder.mkdir(parents=True, exist_ok=True)
    save_arrays(
        {name: np.ascontiguousarray(a, np.float32) for name, a in arrays.items()}, folder / "golden.safetensors"
    )
    describe(
        folder,
        "none",
        "none",
        "Random causal maps [N, L, H, T, T]: importance [N, L, H, T], metric1 [T] in percent, "
        "row_mass [N, L, H, T], normalized entropy (row 1 is 0).",
        eps=eps,
    )


def proxy_of(operation: Operation) -> str:
    """Returns which rows sink scores use, in the words of the core's table: weights, shares, or shares of absolute
    values. Deduces it from the operation's weights for scores of both signs."""
    scores = torch.randn((4, 9, 9), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    visible = torch.ones((9, 9), dtype=torch.bool).tril()
    rows = operation.weights(2 * scores, visible, Parameters(operation.defaults, scores.new_zeros(4)))
    if torch.equal(operation.to_shares(rows), rows):
        return "weights"
    return "share_abs" if (rows < 0).any() else "share"


def write_operations_case() -> None:
    folder = GOLDEN / "operations"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "name": row.id,
            "normalizes": row.normalizes,
            "proxy": proxy_of(row),
            "features": row.features,
            "parameters": dict(row.defaults),
        }
        for row in OPERATIONS.values()
    ]
    describe(
        folder,
        "none",
        "all",
        "The table of attention operations: parameters with their defaults (those of each head stand in tensors).",
        operations=rows,
    )


CASES: dict[str, Callable[[], None]] = {
    **{name: partial(write_hf_case, name, case) for name, case in HF_CASES.items()},
    **{
        f"ref-{op}": partial(write_ref_case, f"ref-{op}", "llama", op)
        for op in OPERATIONS
        if op not in VARIANT_OPERATIONS
    },
    "ref-gpt2-sigmoid": partial(write_ref_case, "ref-gpt2-sigmoid", "gpt2", "sigmoid"),
    **{f"twin-{op}": partial(write_twin_case, op) for op in TWINS},
    "metrics": write_metrics_case,
    "operations": write_operations_case,
}


def main() -> None:
    write_cases("Write tests/golden", CASES, lambda _, case: case())


if __name__ == "__main__":
    main()
