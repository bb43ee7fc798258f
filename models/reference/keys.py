"""Compares the core with transformers on configs of which one key is deleted, changed or added.

    python -m models.reference.keys                          every variant of every family, and the table of counts
    python -m models.reference.keys --family phi3 mistral    these families
    python -m models.reference.keys --draw 60                a fixed draw of 60 variants

A variant is a small random checkpoint of a family whose config.json differs in one key. transformers computes it in F64
(eager), and so does .build/native/dump. One of four must hold:

    equal       attention maps and logits agree within 1e-5, or within ten times what transformers' own F32 is off
    refused     the core refuses the config, and its error names the key
    both fail   transformers raises an error, or finds missing, unexpected or mismatched tensors, and the core refuses
    wrong       anything else: other numbers, a refusal that names another key, or a model that transformers cannot open

Keys are those of the family's saved config.json, those that its classes read while a model is built and run, and the
older forms of rotary parameters. The weights have the shapes that the changed config asks for; where these are not the
shapes of the unchanged config, the unchanged weights must be refused.
"""

import argparse
import copy
import inspect
import json
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from huggingface_hub.errors import StrictDataclassFieldValidationError
from torch import Tensor
from transformers.configuration_utils import PreTrainedConfig

from .goldens import REPOSITORY
from .goldens.write_families import CASES, Case, drop_keys, fill_weights

DUMP = REPOSITORY / ".build" / "native" / "dump"
TOLERANCE = 1e-5
LENGTH = 20
# A changed config may ask for a large model; above this number of parameters only the shapes are compared.
PARAMETERS_MAX = 2_000_000
Config = dict[str, Any]

# Keys that no model class computes with: names, ids of tokens, training, output, and how to store or to shard weights.
IDLE_WORDS = """
    architectures attribute_map base_config_key bos_token_id chunk_size_feed_forward classifier_dropout decoder
    default_rope_type default_theta dtype eos_token_id generator gradient_checkpointing id2label
    ignore_keys_at_rope_validation initializer_range is_heterogeneous kv_sharing_modes label2id layerdrop loss_type
    model_type mtp_layer_types name_or_path num_labels num_mtp_layers output_attentions output_cross_attentions
    output_hidden_states output_router_logits pad_token_id pretraining_tp problem_type quantization_config
    reorder_and_upcast_attn return_dict rope_parameters router_aux_loss_coef slow_but_exact sub_configs
    sub_configs_defaults summary_activation summary_first_dropout summary_proj_to_labels summary_type
    summary_use_proj task_specific_params tokenizer_class torch_dtype transformers_version use_cache use_return_dict
"""
IDLE_KEYS = frozenset(IDLE_WORDS.split())
ACTIVATIONS = ("silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu", "relu", "relu2", "tanh")
FLAT_ROPE_KEYS = ("rope_theta", "rope_scaling", "partial_rotary_factor", "original_max_position_embeddings")


@dataclass(frozen=True)
class Variant:
    family: str
    key: str  # with dots for a key inside an object
    change: str
    config: Config

    def __str__(self) -> str:
        return f"{self.family}: {self.key} {self.change}"


@dataclass(frozen=True)
class Result:
    outcome: str  # equal, refused, both fail, or wrong
    detail: str


@dataclass(frozen=True)
class Base:
    case: Case
    config: Config
    shapes: dict[str, tuple[int, ...]]
    weights: Path
    keys_read: frozenset[str]


# ---- transformers ----------------------------------------------------------------------------------------------------


def with_float(value: Any, name: str) -> Any:
    """Writes a whole number of this name as 2.0, since JSON has one kind of numbers and transformers has two."""
    if not isinstance(value, dict):
        return value
    return {
        key: float(inner) if key == name and type(inner) is int else with_float(inner, name)
        for key, inner in value.items()
    }


def read_config(config: Config, case: Case, folder: Path) -> PreTrainedConfig:
    (folder / "config.json").write_text(json.dumps(config))
    try:
        result = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
    except StrictDataclassFieldValidationError as error:
        field = re.search(r"for field '(\w+)'", str(error))
        other = with_float(config, field[1]) if field else config
        if json.dumps(other) == json.dumps(config):
            raise
        return read_config(other, case, folder)
    result._experts_implementation = "eager"
    if not isinstance(result, case.model.config_class):
        raise TypeError(f"a config of {type(result).__name__}")
    return result


def shapes_of(config: PreTrainedConfig, case: Case) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        model = case.model(copy.deepcopy(config))
    return {name: tuple(w.shape) for name, w in model.state_dict().items()}


def build(config: PreTrainedConfig, case: Case) -> transformers.PreTrainedModel:
    model = case.model(config).eval()
    fill_weights(model, torch.Generator().manual_seed(23), case.center)
    return model


def compute(model: transformers.PreTrainedModel, case: Case, tokens: Tensor) -> dict[str, Tensor]:
    if case.maps:
        att = case.maps(model, tokens)["att"]
    with torch.no_grad():
        out = model(tokens[None], output_attentions=True)
    return {"logits": out.logits[0], "att": att if case.maps else torch.cat(out.attentions)}


# ---- the core --------------------------------------------------------------------------------------------------------


def run_core(folder: Path, tokens: Tensor) -> dict[str, Tensor] | str:
    """Returns maps and logits, or the error, "key: sentence"."""
    out = folder / "dump.bin"
    process = subprocess.run([DUMP, folder, out, *map(str, tokens.tolist())], capture_output=True, text=True)
    if process.returncode not in (0, 2):
        raise RuntimeError(f"dump: exit status {process.returncode}: {process.stdout}{process.stderr}")
    if process.returncode:
        return process.stdout.strip().split(": ", 2)[2]
    numbers = torch.from_numpy(np.fromfile(out, dtype=np.float32))
    fields, first = {}, 0
    for line in process.stdout.splitlines():
        _, name, count = line.split()
        fields.setdefault(name, numbers[first : first + int(count)])
        first += int(count)
    return {name: fields[name] for name in ("logits", "att")}


def largest_difference(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    worst = 0.0
    for name, numbers in expected.items():
        numbers = numbers.flatten().double()
        if numbers.shape != actual[name].shape:
            return float("inf")
        gap = (actual[name].double() - numbers).abs().max() / numbers.abs().max().clamp_min(1)
        worst = max(worst, float(gap.nan_to_num(nan=float("inf"))))
    return worst


# ---- one variant -----------------------------------------------------------------------------------------------------


def changed_names(value: Any, other: Any) -> set[str]:
    """The keys, inner ones too, that differ between two values, and those of an object that only one of them has."""
    if not isinstance(value, dict) and not isinstance(other, dict):
        return set()
    value, other = (x if isinstance(x, dict) else {} for x in (value, other))
    names = {name for name in {*value, *other} if name not in value or name not in other or value[name] != other[name]}
    return names.union(*(changed_names(value.get(name), other.get(name)) for name in names))


def is_named(error: str, names: set[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", error) for name in names)


@dataclass(frozen=True)
class Expected:
    tokens: Tensor
    fields: dict[str, Tensor] | None = None  # maps and logits; None if transformers fails
    rounding: float = 0.0  # difference between the fields in F32 and in F64, both by transformers
    failure: str = ""
    fits: bool = True  # whether the unchanged weights have the shapes that the config asks for


def prepare(variant: Variant, base: Base, folder: Path) -> Expected:
    """Computes a variant by transformers. Writes its config, and weights of its shapes, into the folder; the unchanged
    weights if transformers fails."""
    tokens = torch.arange(base.case.length) % 61
    try:
        config = read_config(variant.config, base.case, folder)
        shapes = shapes_of(config, base.case)
        if sum(map(np.prod, shapes.values())) > PARAMETERS_MAX:
            raise ValueError("shapes of a large model")
        tokens = torch.randint(
            max(min(config.get_text_config().vocab_size, 61), 1),
            (base.case.length,),
            generator=torch.Generator().manual_seed(5),
        )
        model = build(config, base.case)
        model.save_pretrained(folder)
        (folder / "config.json").write_text(json.dumps(variant.config))
        in_f32 = compute(model, base.case, tokens)
        fields = compute(model.double(), base.case, tokens)
        rounding = largest_difference({name: numbers.flatten() for name, numbers in in_f32.items()}, fields)
        return Expected(tokens, fields, rounding, shapes == base.shapes)
    except Exception as error:
        use_unchanged_weights(variant, base, folder)
        return Expected(tokens, failure=f"{type(error).__name__}: {error}".replace("\n", " ")[:160])


def use_unchanged_weights(variant: Variant, base: Base, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(variant.config))
    (folder / "model.safetensors").unlink(missing_ok=True)
    (folder / "model.safetensors").symlink_to(base.weights)


def judge(variant: Variant, base: Base, expected: Expected, folder: Path) -> Result:
    actual = run_core(folder, expected.tokens)
    if isinstance(actual, str):
        if is_named(actual, changed_names(variant.config, base.config)):
            return Result("refused", actual)
        return Result("wrong" if expected.fields else "both fail", actual)
    if not expected.fields:
        return Result("wrong", f"opens, but transformers fails: {expected.failure}")
    gap = largest_difference(actual, expected.fields)
    if gap > max(TOLERANCE, 10 * expected.rounding):
        return Result("wrong", f"off by {gap:.2g}")
    if not expected.fits:
        use_unchanged_weights(variant, base, folder)
        if not isinstance(run_core(folder, expected.tokens), str):
            return Result("wrong", "opens with weights of other shapes")
    return Result("equal", f"off by {gap:.2g}")


# ---- bases -----------------------------------------------------------------------------------------------------------


def trace_keys(case: Case) -> tuple[transformers.PreTrainedModel, frozenset[str]]:
    """Builds and runs the unchanged model; returns it, and the names that its classes read from the config."""
    names: set[str] = set()
    original = PreTrainedConfig.__getattribute__

    def record(self: PreTrainedConfig, name: str) -> Any:
        if not name.startswith("_") and not callable(getattr(type(self), name, None)):
            names.add(name)
        return original(self, name)

    PreTrainedConfig.__getattribute__ = record
    try:
        model = build(case.model.config_class(**copy.deepcopy(case.config), attn_implementation="eager"), case)
        compute(model, case, torch.arange(case.length) % 61)
    finally:
        PreTrainedConfig.__getattribute__ = original
    source = inspect.getsource(inspect.getmodule(case.model.config_class))
    names |= set(re.findall(r"kwargs\.(?:pop|get)\(\"(\w+)\"", source))
    return model, frozenset(names)


def bases(folder: Path, families: list[str] | None) -> dict[str, Base]:
    result: dict[str, Base] = {}
    seen: set[str] = set()
    llama_sizes = drop_keys(CASES["hf-mistral"].config, "sliding_window")
    llama = {"hf-llama": Case(transformers.LlamaForCausalLM, llama_sizes, "")}
    gpt2 = {
        "hf-gpt2": Case(
            transformers.GPT2LMHeadModel, dict(n_embd=32, n_layer=2, n_head=4, vocab_size=61, n_positions=48), ""
        )
    }
    for name, case in (llama | gpt2 | CASES).items():
        family = case.model.config_class.model_type
        if family in seen or case.part or (families and family not in families):
            continue
        seen.add(family)
        model, names = trace_keys(case)
        model.save_pretrained(folder / name)
        saved = json.loads((folder / name / "config.json").read_text())
        shapes = shapes_of(read_config(saved, case, folder), case)
        result[name] = Base(case, saved, shapes, folder / name / "model.safetensors", names)
    return result


# ---- variants --------------------------------------------------------------------------------------------------------


def values_like(value: Any) -> list[Any]:
    """Other values of the same kind, and null."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [value * 2, value + 1, None]
    if isinstance(value, float):
        return [0.01 if 0 < value < 0.01 else value / 2, None]  # a norm's eps shows if it is large
    if isinstance(value, str):
        return [word for word in (*(ACTIVATIONS if value in ACTIVATIONS else ()), "other") if word != value] + [None]
    if isinstance(value, list):
        first = values_like(value[0])[:1] if value else []
        return [value[:-1], *([other, *value[1:]] for other in first), *([value[::-1]] if value else []), None]
    return [2, True] if value is None else [None]


def added_values(key: str, case: Case) -> list[Any]:
    """Values of a key that the saved config does not have."""
    known: dict[str, list[Any]] = {
        "is_causal": [False],
        "rope_theta": [50.0],
        "rope_scaling": [{"type": "linear", "factor": 2.0}],
        "partial_rotary_factor": [0.5],
        "rotary_pct": [0.5],
        "rotary_emb_base": [50.0],
        "original_max_position_embeddings": [12],
        "per_layer_config": [{"0": {"hidden_size": 16}}],
        "layer_types": [["full_attention", "sliding_attention"]],
        "attention_chunk_size": [4],
        "mlp_layer_types": [["dense", "sparse"]],
    }
    default = getattr(case.model.config_class, key, None)
    return known.get(key) or [value for value in values_like(default) if value is not None]


def rope_variants(config: Config) -> Iterator[tuple[str, str, Config]]:
    """Forms of rotary parameters: every type, in the newer and in the older key, flat and by kinds of layers."""
    kinds = {
        "default": {},
        "linear": {"factor": 2.0},
        "dynamic": {"factor": 2.0},
        "yarn": {"factor": 2.0, "original_max_position_embeddings": 12},
        "llama3": {
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 12,
        },
        "proportional": {"factor": 2.0},
        "other": {},
    }
    plain = {key: value for key, value in config.items() if key not in ("rope_parameters", *FLAT_ROPE_KEYS)}
    for kind, more in kinds.items():
        rope = {"rope_type": kind, **more}
        yield "rope_parameters", f"= {kind}", plain | {"rope_parameters": {"rope_theta": 100.0, **rope}}
        if kind in ("default", "yarn"):
            yield "rope_scaling", f"= {kind}, beside rope_parameters", config | {"rope_scaling": rope}
        if kind in ("linear", "yarn"):
            yield "rope_scaling", f"= {kind}, older form", plain | {"rope_theta": 100.0, "rope_scaling": rope}
            by_kind = {"full_attention": {"rope_theta": 100.0, **rope}, "sliding_attention": {"rope_type": "default"}}
            yield "rope_parameters", f"= {kind} by kinds of layers", plain | {"rope_parameters": by_kind}
    yield "rope_theta", "= 50, older form", plain | {"rope_theta": 50.0}
    yield "partial_rotary_factor", "= 0.5, older form", plain | {"rope_theta": 50.0, "partial_rotary_factor": 0.5}
    yield (
        "rope_parameters",
        "with partial_rotary_factor",
        plain | {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 0.5}},
    )


def changed(config: Config, path: list[str], value: Any = None, delete: bool = False) -> Config:
    result = copy.deepcopy(config)
    place = result
    for part in path[:-1]:
        place = place[part]
    if delete:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return result


def paths_of(config: Config, prefix: tuple[str, ...] = ()) -> Iterator[tuple[list[str], Any]]:
    for key, value in config.items():
        if key in IDLE_KEYS - {"rope_parameters"} or key == "vision_config" or key.endswith(("dropout", "_pdrop")):
            continue
        yield [*prefix, key], value
        if isinstance(value, dict):
            yield from paths_of(value, (*prefix, key))


def variants_of(base: Base) -> Iterator[Variant]:
    seen = {json.dumps(base.config, sort_keys=True)}
    inner = "text_config" in base.config

    def make(key: str, change: str, config: Config) -> Iterator[Variant]:
        text = json.dumps(config, sort_keys=True)
        if text not in seen:
            seen.add(text)
            yield Variant(base.config["model_type"], key, change, config)

    for path, value in paths_of(base.config):
        key = ".".join(path)
        yield from make(key, "deleted", changed(base.config, path, delete=True))
        for other in values_like(value):
            yield from make(key, f"= {json.dumps(other)}", changed(base.config, path, other))
    text = base.config["text_config"] if inner else base.config
    prefix = ["text_config"] if inner else []
    known = {*text, *base.config, *IDLE_KEYS, "text_config", "vision_config"}
    known |= {key for key in base.keys_read if key.startswith(("vision_", "base_model_"))}
    for key in sorted(
        {*base.keys_read, *base.case.model.config_class.attribute_map, *FLAT_ROPE_KEYS, "is_causal", "per_layer_config"}
        - known
    ):
        for other in added_values(key, base.case):
            yield from make(
                ".".join([*prefix, key]), f"added = {json.dumps(other)}", changed(base.config, [*prefix, key], other)
            )
    if "rope_parameters" in text:
        for key, change, config in rope_variants(text):
            yield from make(
                ".".join([*prefix, key]), change, base.config | {"text_config": config} if inner else config
            )


# ---- the command -----------------------------------------------------------------------------------------------------


def print_table(counts: dict[str, Counter[str]]) -> None:
    columns = ("equal", "refused", "both fail", "wrong")
    print("| family | variants | " + " | ".join(columns) + " |")
    print("| --- " * (len(columns) + 2) + "|")
    total = sum(counts.values(), Counter())
    for family, row in {**counts, "all": total}.items():
        print(f"| {family} | {row.total()} | " + " | ".join(str(row[column]) for column in columns) + " |")


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares configs with one changed key with transformers.")
    parser.add_argument("--family", nargs="+", help="only these families")
    parser.add_argument("--match", default="", help="only variants whose name matches this regular expression")
    parser.add_argument("--draw", type=int, metavar="N", help="only a fixed draw of N variants")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        return compare(options, Path(name))


def compare(options: argparse.Namespace, folder: Path) -> int:
    by_name = bases(folder, options.family)
    pairs = [
        (variant, base)
        for base in by_name.values()
        for variant in variants_of(base)
        if re.search(options.match, str(variant))
    ]
    if options.draw:
        pairs = random.Random(62).sample(pairs, options.draw)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for variant, base in pairs:
        with tempfile.TemporaryDirectory() as name:
            expected = prepare(variant, base, Path(name))
            result = judge(variant, base, expected, Path(name))
        counts[variant.family][result.outcome] += 1
        if result.outcome == "wrong":
            print(f"{result.outcome}: {variant}: {result.detail}", flush=True)
    print_table(counts)
    return int(sum(counts.values(), Counter())["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
