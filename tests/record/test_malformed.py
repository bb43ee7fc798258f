"""Checks that Python and the npm package open the same recordings: each key of the schema with values of each kind, and
tensors of other shapes. What opens can be printed, drawn and measured."""

import copy
import json
import math
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
from safetensors.numpy import save
from sentences import refused
from sinkscope.recording import CONDITIONS_KEY, UNITS, VERSION_KEY, RecordingError
from sinkscope.schema import load_schema, parse_conditions

VALUES = (
    *(None, True, 0, 1, 2, 3, -1, 0.5, 2.0, 2**31 - 1, 2**31, 1e39, 10**400, math.nan, math.inf),
    *("", "x", "\ud800", "frame"),
    *([], [0], [0, 1], [1, 0], [0, 5], [None, 3], ["x"], [["a", "b"]], [["x", "y"]], [[]]),
    *({}, {"a": 1}, {"a": "1"}, {"kind": "x"}, {"kind": "prefix"}, {"kind": "prefix", "prefix": 2}),
    *({"kind": "window"}, {"kind": "window", "window": 2}, {"kind": "bidirectional"}),
    {"T": 2, "keys": "patch", "tokens": [["x", "y"]]},
    {"T": 4, "keys": "frame", "tokens": [["x", "y"]] * 2},
    *([{"kind": "own"}], [{"kind": "own", "label": "l"}]),
)
# Values of an element of `images` of four tokens.
IMAGES = (
    None,
    {},
    {"kinds": 4},
    {"kinds": "sii"},
    {"kinds": "sixt", "rows": 1, "cols": 2},
    {"kinds": "siit", "rows": 1},
    {"kinds": "siit", "rows": 2, "cols": 2},
    {"kinds": "siit", "rows": 0, "cols": 2},
    {"kinds": "siit", "rows": 0.5, "cols": 4},
    {"kinds": "siit", "rows": 2.0, "cols": 1},
    {"kinds": "siit", "rows": None, "cols": None},
    {"kinds": "siit\n"},
    {"kinds": "siit", "rows": "1", "cols": 2},
)
# Keys that a recording of cross-attention reads in another way.
OF_CROSS = ("cross", "tokens", "first", "prompts", "images")
MISSING = object()


@pytest.fixture(scope="module")
def recording() -> sinkscope.Recording:
    rng = np.random.default_rng(3)
    maps = np.tril(rng.random((2, 2, 2, 4, 4))).astype(np.float32)
    maps /= maps.sum(-1, keepdims=True)
    recording = sinkscope.record_maps(maps, [["a", "b", "c", "d"]] * 2, eps=[0.1, 0.3])
    recording.conditions["images"] = [{"kinds": "siit", "rows": 1, "cols": 2}, {"kinds": "tttt"}]
    shares = {f"{kind}.image_share": np.full((2, 2), 0.5, np.float32) for kind in ("mean", "deviation")}
    picture = {"0.picture": np.zeros((5, 4, 3), np.uint8), "0.sink_value": np.ones((3, 4), np.float32)}
    return sinkscope.Recording(recording.conditions, recording.tensors | shares | picture)


def key_paths(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, part in schema.get("properties", {}).items():
        yield (*path, key)
        yield from key_paths(part, (*path, key))


def change(conditions: Any, path: tuple[str, ...], value: Any) -> Any:
    changed = copy.deepcopy(conditions)
    inner = changed
    for key in path[:-1]:
        inner = inner.get(key)
        if not isinstance(inner, dict):
            return None
    if value is MISSING:
        inner.pop(path[-1], None)
    else:
        inner[path[-1]] = value
    return changed


def is_read_by_both(name: str) -> bool:
    """Each reader checks the tensors that it reads. The core has no smallest and largest numbers and no distance."""
    statistic, _, metric = name.partition(".")
    if statistic == "prompt":
        return metric in ("sink_1", "alpha_1", "loss", "failed")
    return statistic.isdigit() or statistic in ("mean", "deviation") and metric in UNITS.keys() - {"distance"}


def cross_recording() -> sinkscope.Recording:
    """Two queries attend to three keys."""
    rng = np.random.default_rng(3)
    maps = rng.random((2, 2, 2, 3)).astype(np.float32)
    alpha = maps.mean(-2)
    model = {"id": "m", "family": "m", "L": 2, "H": 2, "G": 2, "K": 1, "D": 2, "V": 5, "part": "cross"}
    conditions = {
        "model": model | {"mask": {"kind": "bidirectional"}},
        "first": {"token": None, "id": None, "position": 0},
        "tokens": [["a", "b", "c"]],
        "cross": {"T": 2, "keys": "token", "tokens": [["x", "y"]]},
        "prompts": {"count": 1, "kept": 1, "T": 3},
        "eps": [0.1],
        "class": "MEASURED",
    }
    tensors = {"0.att": maps, "0.alpha": alpha, "mean.alpha": alpha, "deviation.alpha": alpha}
    tensors |= {"mean.sink_ratio": np.ones((1, 3), np.float32), "0.att_scale": np.ones((2, 2), np.float32)}
    return sinkscope.Recording(conditions, tensors | {"0.att_pooled": np.ones((2, 2, 2, 3), np.uint8)})


def write_variants(recording: sinkscope.Recording, folder: Path, version: str = "1") -> None:
    count = 0

    def write(conditions: Any, tensors: Any, note: str) -> None:
        nonlocal count
        text = conditions if isinstance(conditions, str) else json.dumps(conditions)
        metadata = {VERSION_KEY: version, CONDITIONS_KEY: text}
        safe_note = "".join(c if c.isalnum() or c in "._-" else "_" for c in note)[:60]
        (folder / f"{count:04}_{safe_note}").write_bytes(save(tensors, metadata))
        count += 1

    for path in key_paths(load_schema()):
        if version == "2" and path[0] not in OF_CROSS:
            continue
        for value in (MISSING, *VALUES):
            changed = change(recording.conditions, path, value)
            if changed is not None:
                name = ".".join(path)
                write(changed, recording.tensors, f"{name}_{'missing' if value is MISSING else repr(value)}")
    for i, image in enumerate(IMAGES):
        write(change(recording.conditions, ("images",), [image, {"kinds": "tttt"}]), recording.tensors, f"image_{i}")
    for shape in ((256, 256, 3), (257, 8, 3), (8, 257, 3), (0, 8, 3), (8, 8, 4), (8, 8)):
        picture = {"0.picture": np.zeros(shape, np.uint8)}
        write(recording.conditions, recording.tensors | picture, f"picture_{shape}")
    for text in ("", "[]", "1", "{", "[" * 100_000, '{"model": 1e999}'):
        write(text, recording.tensors, f"text_{text}")
    for name, x in recording.tensors.items():
        if not is_read_by_both(name):
            continue
        for note, other in (
            ("short", x[..., :-1]),
            ("long", np.concatenate([x, x], -1)),
            ("flat", x.ravel()),
            ("int", np.zeros(x.shape, np.int32)),
            ("nan", np.full_like(x, np.nan) if x.dtype.kind == "f" else x),
        ):
            write(recording.conditions, recording.tensors | {name: np.ascontiguousarray(other)}, f"{name}_{note}")


def use(recording: sinkscope.Recording) -> None:
    texts = [
        repr(recording),
        str(recording.table()),
        recording._repr_html_(),
        recording.caption(),
        recording.cite(),
        str(recording.heads()),
        recording.table().to_csv(),
    ]
    assert all(texts)
    for call in (recording.measure, lambda: sinkscope.compare(recording, recording)):
        with suppress(ValueError):  # a sentence
            call()


@pytest.mark.parametrize("version", ["1", "2"])
def test_python_and_the_npm_package_open_the_same_recordings(
    recording: sinkscope.Recording, tmp_path: Path, version: str
) -> None:
    write_variants(recording if version == "1" else cross_recording(), tmp_path, version)
    verdicts = json.loads(
        subprocess.run(
            ["node", Path(__file__).with_name("openings.mjs"), tmp_path], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    )
    files = sorted(tmp_path.iterdir())
    assert len(files) == len(verdicts) > (1500 if version == "1" else 400)
    differing, opened = [], []
    for file in files:
        try:
            opened.append(sinkscope.Recording.open(file))
            error = None
        except RecordingError as refusal:
            error = str(refusal)
            assert "expected" in error and "found" in error and "safetensors file" not in error, error
        if (error is None) != (verdicts[file.name] is None):
            differing.append((file.name, error, verdicts[file.name]))
    assert differing == []
    assert 50 < len(opened) < len(files) - 100
    for recording in opened:
        use(recording)


@pytest.mark.parametrize(
    ("image", "key"),
    [
        ({"kinds": "siix", "rows": 1, "cols": 2}, "images.0.kinds"),
        ({"kinds": "sii", "rows": 1, "cols": 2}, "images.kinds"),
        ({"kinds": "siit", "rows": 3, "cols": 2}, "images.rows"),
    ],
)
def test_an_image_that_does_not_fit_its_tokens_is_refused_by_its_key(
    recording: sinkscope.Recording, tmp_path: Path, image: dict[str, Any], key: str
) -> None:
    changed = change(recording.conditions, ("images",), [image, {"kinds": "tttt"}])
    path = tmp_path / "r.safetensors"
    path.write_bytes(save(recording.tensors, {VERSION_KEY: "1", CONDITIONS_KEY: json.dumps(changed)}))
    with pytest.raises(RecordingError, match=f"{key}: expected"):
        sinkscope.Recording.open(path)


@pytest.mark.parametrize(
    ("version", "path", "value"),
    [
        ("1", "model.H", 32768 + 2),
        ("1", "model.blocks", 1),
        ("1", "prompts.count", 1),
        ("1", "images", [{"kinds": "tttt"}]),
        ("1", "eps", [0.1, math.nan]),
        ("2", "cross.T", 3),
        ("2", "prompts.T", 4),
    ],
)
def test_conditions_that_contradict_each_other_are_refused_by_their_key(
    recording: sinkscope.Recording, tmp_path: Path, version: str, path: str, value: Any
) -> None:
    whole = recording if version == "1" else cross_recording()
    changed = change(whole.conditions, tuple(path.split(".")), value)
    file = tmp_path / "r.safetensors"
    file.write_bytes(save(whole.tensors, {VERSION_KEY: version, CONDITIONS_KEY: json.dumps(changed)}))
    with refused(RecordingError):
        sinkscope.Recording.open(file)


def test_the_first_position_lies_in_each_prompt_and_windows_by_layer_need_no_common_one(
    recording: sinkscope.Recording,
) -> None:
    conditions = {key: x for key, x in recording.conditions.items() if key != "images"}
    short = change(change(conditions, ("tokens",), [list("abcd"), list("ab")]), ("first", "position"), 2)
    with refused(ValueError):
        parse_conditions(json.dumps(short))
    windows = change(change(conditions, ("model", "mask"), {"kind": "window"}), ("model", "windows"), [2, 3])
    assert parse_conditions(json.dumps(windows)) == windows
