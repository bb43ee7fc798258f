"""Checks the conditions of a recording against the schema that the core reads, core/report/recording.schema.json."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import fastjsonschema

CONDITIONS_KEY = "sinkscope"
HEADS_MAX = 65536  # in all layers


@cache
def load_schema() -> dict[str, Any]:
    """Returns the schema: in the repository the core's, in an installed package its copy."""
    source = Path(__file__).parents[4] / "core" / "report" / "recording.schema.json"
    return json.loads((source if source.is_file() else files("sinkscope") / "static" / source.name).read_text())


def operation_names() -> list[str]:
    """Returns the names of the core's table of attention operations, in its order."""
    return [name for name in load_schema()["properties"]["model"]["properties"]["operation"]["enum"] if name]


@cache
def _load_validator() -> Callable[[Any], Any]:
    # Draft 7 has every keyword of the schema, with the meaning of 2020-12.
    return fastjsonschema.compile({key: x for key, x in load_schema().items() if key != "$schema"}, use_default=False)


def parse_conditions(text: str) -> dict[str, Any]:
    """Parses the JSON text. Raises ValueError with the key, what it must be and what it is."""
    try:
        conditions = json.loads(text, parse_float=_parse_number, parse_constant=_refuse_constant)
        json.dumps(conditions, ensure_ascii=False).encode()  # refuses halves of surrogate pairs
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{CONDITIONS_KEY}: expected JSON, found none: {error}") from error
    try:
        _load_validator()(conditions)
    except fastjsonschema.JsonSchemaValueException as error:
        raise ValueError(_explain(error)) from None
    for key, is_right, expected in _relations(conditions):
        if not is_right:
            raise ValueError(f"{key}: expected {expected}, found something else")
    return conditions


def _parse_number(text: str) -> int | float:
    """A whole number is an integer, also with a decimal point."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _explain(error: fastjsonschema.JsonSchemaValueException) -> str:
    key = ".".join(error.path[1:])
    if error.rule == "required":
        missing = next(name for name in error.rule_definition if name not in error.value)
        return f"{f'{key}.' if key else ''}{missing}: expected it among the conditions, found none"
    expected = error.message.removeprefix(error.name).strip().removeprefix("must ")
    return f"{key or CONDITIONS_KEY}: expected it to {expected}, found {error.value!r:.60}"


def _relations(conditions: dict[str, Any]) -> Iterator[tuple[str, bool, str]]:
    """Yields what a schema cannot say: a key, whether it fits the others, and what it must be."""
    model, prompts, tokens = (conditions[key] for key in ("model", "prompts", "tokens"))
    L, H, layers, windows = (model.get(key) for key in ("L", "H", "layers", "windows"))
    blocks, mask = model.get("blocks") or L, model.get("mask") or {}
    yield "model.G", H % model["G"] == 0, f"a divisor of H = {H}"
    yield "model.H", L * H <= HEADS_MAX, f"at most {HEADS_MAX} heads in all layers"
    if layers is None:
        yield "model.layers", blocks == L, f"{L} numbers of blocks, since L is not {blocks}"
    else:
        is_ascending = all(a < b for a, b in zip(layers, layers[1:], strict=False))
        yield (
            "model.layers",
            len(layers) == L and is_ascending and layers[-1] < blocks,
            (f"{L} ascending numbers below {blocks}"),
        )
    yield "model.windows", windows is None or len(windows) == L, f"{L} numbers, or null"
    if mask.get("kind") == "window" and windows is None:
        yield "model.mask.window", (mask.get("window") or 0) > 0, "a number above 0"
    yield "prompts.kept", prompts["kept"] == len(tokens), f"{len(tokens)}, the number of lists of tokens"
    yield "prompts.kept", prompts["kept"] <= prompts["count"], f"at most the {prompts['count']} of `count`"
    cross = conditions.get("cross")
    if cross is not None:
        queries = cross["tokens"]
        yield "cross.tokens", len(queries) == len(tokens), f"{len(tokens)} lists, as of `tokens`"
        yield "cross.tokens", all(len(x) == cross["T"] for x in queries), f"{cross['T']} strings in each list"
        yield "model.mask", mask.get("kind") == "bidirectional", "the kind bidirectional, since queries see every key"
        yield "tokens", all(len(x) == prompts["T"] for x in tokens), f"{prompts['T']} strings in each list"
    images = conditions.get("images")
    if images is not None:
        yield "images", len(images) == len(tokens), f"{len(tokens)}, one for each list of tokens"
        for image, strings in zip(images, tokens, strict=True):
            rows, cols, patches = image.get("rows"), image.get("cols"), image["kinds"].count("i")
            yield "images.kinds", len(image["kinds"]) == len(strings), f"{len(strings)} letters, one for each token"
            is_grid = rows * cols == patches if rows and cols else rows is None and cols is None
            yield "images.rows", is_grid, f"rows and columns of {patches} patches, or neither"
    shortest = min([prompts["T"], *map(len, tokens)])
    yield (
        "first.position",
        ((conditions.get("first") or {}).get("position") or 0) < shortest,
        (f"a position below {shortest}, which each prompt has"),
    )
