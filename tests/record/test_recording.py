"""Checks that a saved recording is read back, also by plain safetensors, and follows its schema."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
from families import FAMILIES, T, make_inputs, record
from hybrids import HYBRIDS
from safetensors import safe_open
from safetensors.numpy import save_file
from sentences import refused
from sinkscope.recorder import Recorder, prompt_row
from sinkscope.recording import (
    CONDITIONS_KEY,
    KINDS,
    SIGNED_OPERATIONS,
    UNITS,
    VERSION_KEY,
    MetricStatistics,
    RecordingError,
)
from sinkscope.schema import operation_names
from sinkscope.settings import FIELDS, Settings
from sinkscope.summary import Table
from truth import rounding_of

ROOT = Path(__file__).resolve().parents[2]

SCHEMA = ROOT / "core" / "report" / "recording.schema.json"
DESCRIPTION = json.loads((ROOT / "wasm" / "sinkscope.describe.json").read_text())


@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_file_follows_the_schema_and_its_shapes(name: str, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    family = FAMILIES[name]
    recording = record(family.make(family.implementations[0]), make_inputs(family, 3), keep=2, license="Apache-2.0")
    path = tmp_path / "r.safetensors"
    assert recording.save(path) == path.stat().st_size
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    assert metadata[VERSION_KEY] == "1"
    conditions = json.loads(metadata[CONDITIONS_KEY])
    if SCHEMA.exists():
        jsonschema.validate(conditions, json.loads(SCHEMA.read_text()))
    m, n, E = conditions["model"], conditions["prompts"]["T"], len(conditions["eps"])
    L, H, G = m["L"], m["H"], m["G"]
    shapes = {
        "alpha": (L, H, n),
        "sink_ratio": (E, n),
        "near_eps": (E, n),
        "row_mass": (L, H, n),
        "row_mass_summary": (L, H, 3),
        "entropy": (L, H, n),
        "entropy_mean": (L, H),
        "first_share": (L, H),
        "head_gate": (L, H, n),
        "head_load": (L, H),
        "head_gini": (L,),
        "hidden_norm": (L + 1, n),
        "hidden_ratio": (L + 1,),
        "massive": (L + 1, 4),
        "mixing": (L + 1,),
        "kurtosis": (L + 1,),
        "matrix_entropy": (L + 1,),
        "matrix_entropy_others": (L + 1,),
    }
    if not family.weight_implementations or name == "falcon":
        shapes |= {
            "cos_gap": (L, H),
            "contribution": (L, H),
            "contribution_at": (L, H, n),
            "key_norm": (L, G, n),
            "value_norm": (L, G, n),
            "key_ratio": (L, G),
            "value_ratio": (L, G),
        }
    if family.kind == "causal":
        shapes |= {"loss_at": (n,), "loss_mean": (1,), "accuracy": (1,)}
    for metric, shape in shapes.items():
        for statistic in ("mean", "deviation"):
            assert recording[f"{statistic}.{metric}"].shape == shape, metric
            assert recording[f"{statistic}.{metric}"].dtype == np.float32
    fields = {"att": (L, H, n, n), "alpha": (L, H, n), "row_mass": (L, H, n)}
    for field, shape in fields.items():
        assert recording[f"1.{field}"].shape == shape
    assert [len(tokens) for tokens in conditions["tokens"]] == [n, n]
    reopened = sinkscope.Recording.open(path)
    assert reopened.conditions == conditions == recording.conditions
    assert reopened.tensors.keys() == recording.tensors.keys()
    for key, value in recording.tensors.items():
        assert np.array_equal(reopened[key], value, equal_nan=value.dtype.kind == "f"), key


def test_mean_and_deviation_are_those_of_numpy() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(1e4, 1, (50, 3)).astype(np.float32)
    values[7, 2] = np.nan  # a number that is undefined for one prompt has an undefined mean
    statistics = MetricStatistics()
    for row in values:
        statistics.add({"x": row})
    result = statistics.tensors()
    assert np.allclose(result["mean.x"], values.astype(np.float64).mean(0), rtol=4 * 2**-24, equal_nan=True)
    assert np.allclose(result["deviation.x"], values.astype(np.float64).std(0, ddof=1), rtol=1e-5, equal_nan=True)
    single_prompt = MetricStatistics()
    single_prompt.add({"x": values[0]})
    assert np.isnan(single_prompt.tensors()["deviation.x"]).all()


def test_means_do_not_depend_on_the_order_of_metrics() -> None:
    statistics, other = MetricStatistics(), MetricStatistics()
    statistics.add({"x": np.zeros(2), "y": np.ones((2, 2))})
    statistics.add({"y": np.full((2, 2), 3.0), "x": np.full(2, 2.0)})
    other.add({"y": np.full((2, 2), 5.0), "x": np.full(2, 4.0)})
    state = other.state()
    statistics.join(MetricStatistics.of_state(1, {name: state[name] for name in sorted(state, reverse=True)}))
    mean = statistics.mean
    assert (statistics.count, mean["x"].tolist(), mean["y"].tolist()) == (3, [2, 2], [[3, 3], [3, 3]])
    assert statistics.squares["x"].tolist() == [8, 8]
    assert statistics.tensors()["deviation.y"].tolist() == [[2, 2], [2, 2]]
    for metrics in ({"x": np.zeros(2)}, {"x": np.zeros(2), "y": np.zeros((2, 2)), "z": np.zeros(1)}):
        with refused(ValueError):
            statistics.add(metrics)


def test_a_stored_prompt_keeps_no_batch_in_memory() -> None:
    """If a kept prompt were a view of a batch's numbers, those of all prompts would stay in memory."""
    recorder = Recorder(FAMILIES["gpt_oss"].make("eager"), None, Settings.from_arguments(T, [0.1], 3, FIELDS))
    prompts = recorder.make_prompts(make_inputs(FAMILIES["gpt_oss"], 3))
    for measurement in recorder.measure_all(prompts, 3, progress=False):
        assert measurement and {"alpha", "hidden_norm", "loss", "att"} <= measurement.kept.keys()
        row = prompt_row(measurement, 1, 0)
        for name, x in [*measurement.kept.items(), ("sink_1", row["sink_1"]), ("raw", row["sink_ratio_raw"])]:
            assert not isinstance(x.base, np.ndarray), name


def _write_file(path: Path, metadata: dict[str, str] | None) -> Path:
    save_file({"x": np.zeros(1, np.float32)}, path, metadata)
    return path


CONDITIONS = {
    "model": {"id": "m", "family": "f"} | dict.fromkeys("LHGKDV", 1),
    "tokens": [],
    "eps": [],
    "prompts": {"count": 1, "kept": 0, "T": 1},
    "class": "MEASURED",
}


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {VERSION_KEY: "3"},
        {VERSION_KEY: "1"},
        {VERSION_KEY: "1", CONDITIONS_KEY: "["},
        {VERSION_KEY: "1", CONDITIONS_KEY: "[]"},
        {VERSION_KEY: "1", CONDITIONS_KEY: json.dumps(CONDITIONS | {"eps": 3})},
        {VERSION_KEY: "1", CONDITIONS_KEY: json.dumps(CONDITIONS | {"edits": [{"kind": "evict"}]})},
        {VERSION_KEY: "1", CONDITIONS_KEY: json.dumps(CONDITIONS | {"model": CONDITIONS["model"] | {"L": "1"}})},
    ],
)
def test_other_files_are_rejected_with_a_sentence(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    with refused(RecordingError):
        sinkscope.Recording.open(_write_file(tmp_path / "x.safetensors", metadata))


def test_damaged_files_are_rejected(tmp_path: Path) -> None:
    path = _write_file(tmp_path / "x.safetensors", {VERSION_KEY: "1", CONDITIONS_KEY: json.dumps(CONDITIONS)})
    assert "x" in sinkscope.Recording.open(path)
    data = path.read_bytes()
    for size in range(0, len(data), 7):
        (tmp_path / "cut").write_bytes(data[:size])
        with pytest.raises(RecordingError):
            sinkscope.Recording.open(tmp_path / "cut")
    with pytest.raises(FileNotFoundError):
        sinkscope.Recording.open(tmp_path / "none")


def test_a_later_minor_version_and_unknown_names_are_accepted(tmp_path: Path) -> None:
    conditions = json.dumps(CONDITIONS | {"new": 1})
    path = _write_file(tmp_path / "x", {VERSION_KEY: "1.4", CONDITIONS_KEY: conditions})
    result = sinkscope.Recording.open(path)
    assert result.conditions["new"] == 1
    with pytest.raises(KeyError, match="0.att: the recording has x"):
        result["0.att"]


def test_the_table_has_the_summary_of_the_tensors() -> None:
    recording = record(FAMILIES["llama"].make("sdpa"), make_inputs(FAMILIES["llama"], 4), eps=[0.05, 0.3])
    rows = {row["metric"]: row for row in recording.table()}
    assert np.isclose(rows["alpha_1"]["mean"], recording["mean.alpha"][..., 0].mean(), rtol=rounding_of(1, 3 * 4))
    assert rows["alpha_1"]["largest"] == recording["mean.alpha"][..., 0].max()
    assert rows["Sink_1, eps 0.05"]["mean"] == recording["mean.sink_ratio"][0, 0]
    losses = recording["prompt.loss"]
    assert np.isclose(rows["loss"]["deviation"], losses.std(ddof=1), rtol=0, atol=rounding_of(losses, 4))
    text, html = str(recording.table()), recording._repr_html_()
    assert "MEASURED" in text and "alpha_1" in text and "T = 48, 4 prompts" in text
    assert text.splitlines()[1].split() == ["metric", "unit", "mean", "low", "high", "deviation", "largest", "at"]
    recording.conditions["model"]["id"] = "<script>"
    assert "<script>" not in recording._repr_html_() and "<td>alpha_1</td>" in html
    assert "attention in" not in recording.title
    recording.model["layers"] = [3, 7, 11]
    L, H, _ = recording["mean.alpha"].shape
    assert [recording.place("entropy_mean", index) for index in range(L * H)] == [
        f"L{layer}H{head}" for layer in (3, 7, 11) for head in range(H)
    ]
    assert [recording.place("hidden_ratio", index) for index in range(3)] == [
        "embedding",
        "after layer 0",
        "after layer 1",
    ]


def test_a_metric_missing_from_one_of_two_recordings_is_not_compared() -> None:
    recording = record(FAMILIES["llama"].make("sdpa"), make_inputs(FAMILIES["llama"], 3))
    tensors = {name: x for name, x in recording.tensors.items() if "loss" not in name}
    reduced = sinkscope.Recording(recording.conditions, tensors)
    for pair in ((recording, reduced), (reduced, recording)):
        rows = [row["metric"] for row in sinkscope.compare(*pair)]
        assert "loss" not in rows and "alpha_1" in rows


def test_operations_of_maps_are_those_of_the_core() -> None:
    operations = DESCRIPTION["operations"]
    assert operation_names() == [operation["name"] for operation in operations]
    assert list(SIGNED_OPERATIONS) == [row["name"] for row in operations if row["proxy"] == "share_abs"]


def test_units_of_the_summary_are_those_of_the_core() -> None:
    units = {metric["name"]: metric["unit"] for metric in DESCRIPTION["metrics"]}
    assert units["entropy_mean"] == "of ln n"
    # The distance, and the shares of kinds of tokens, are metrics that only recordings have.
    own_units = {"distance": "tokens", **{f"{name}_share": "share" for name in KINDS.values()}}
    assert UNITS.keys() - units.keys() == own_units.keys()
    assert {name: (own_units | units)[name] for name in UNITS} == UNITS


@pytest.mark.parametrize("name", ["llama", "gpt_oss"])
def test_measure_returns_the_sinks_and_the_map_of_the_strongest_head(name: str) -> None:
    family = FAMILIES[name]
    model = family.make(family.implementations[0])
    recording = record(model, make_inputs(family, 3), eps=[0.1, 0.3], keep=2)
    result = recording.measure(0.1)
    names = [name for name in ("sink_ratio", "sink_ratio_raw") if f"mean.{name}" in recording]
    assert len(names) == (2 if name == "gpt_oss" else 1)
    assert result["sink"] == recording[f"mean.{names[-1]}"][0, 0]
    assert result["sinkByShares"] == recording["mean.sink_ratio"][0, 0]
    raw_alpha = recording["mean.alpha_raw" if name == "gpt_oss" else "mean.alpha"][..., 0]
    assert np.array_equal(result["alpha"], raw_alpha)
    layer, head = result["layer"], result["head"]
    assert raw_alpha[layer, head] == raw_alpha.max()
    assert np.array_equal(result["map"], recording.attention(0)[layer, head])
    for head_index in (0, 3):
        assert np.array_equal(recording.map(0, head_index, prompt=1), recording.attention(1)[0, head_index])
    assert recording.measure()["eps"] == 0.1
    for call, output in (
        (lambda: recording.measure(0.2), "eps: expected one of 0.1, 0.3, got 0.2"),
        (lambda: recording.map(9, 0), "layer: expected one of 0, 1.*, got 9"),
        (lambda: recording.map(0, 4), "head: expected 0 to 3, got 4"),
    ):
        with pytest.raises(ValueError, match=output):
            call()


@pytest.mark.parametrize(
    ("mask", "first"),
    [
        ({"kind": "causal"}, 0),
        ({"kind": "causal"}, 2),
        ({"kind": "prefix", "prefix": 4}, 1),
        ({"kind": "bidirectional"}, 0),
    ],
)
def test_a_text_that_is_too_short_for_an_eps_says_so(mask: dict[str, Any], first: int) -> None:
    """A head without a preference has the alpha of uniform attention, and is no head with a sink."""
    family = FAMILIES["llama"]
    recording = record(family.make(family.implementations[0]), make_inputs(family, 2), eps=[0.01, 0.3], keep=0)
    recording.model["mask"], recording.conditions["first"]["position"] = mask, first
    visible = np.tril(np.ones((T, T)))
    visible[:, : {"causal": 0, "bidirectional": T}.get(mask["kind"], mask.get("prefix"))] = 1
    received = (visible / visible.sum(-1, keepdims=True))[:, first].sum()
    assert recording.uniform_alpha == pytest.approx(received / (T if mask["kind"] == "bidirectional" else T - first))
    assert [recording.measure(eps)["conclusive"] for eps in (0.01, 0.3)] == [False, True]
    note = f"; too short for eps 0.01: uniform attention alone has alpha_{first + 1} {recording.uniform_alpha:.2g}"
    assert recording.table().title.endswith(note) and f"{note}." in recording.caption()
    recording.conditions["eps"] = [0.3]
    assert "too short" not in recording.table().title + recording.caption()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("operation", SIGNED_OPERATIONS)
def test_weights_with_signs_are_judged_by_their_shares_as_in_the_table(operation: str, count: int) -> None:
    rng = np.random.default_rng(count)
    maps = np.tril(rng.normal(size=(count, 2, 4, 12, 12))).astype(np.float32)
    recording = sinkscope.record_maps(maps, [range(12)] * count, eps=[0.2, 0.3], operation=operation)
    sizes = np.abs(maps).astype(np.float64)
    alpha = ((sizes / sizes.sum(-1, keepdims=True)).sum(-2) / np.arange(12, 0, -1))[..., 0]
    result, rows = recording.measure(), {row["metric"]: row for row in recording.table()}
    assert result["alpha"] == pytest.approx(alpha.mean(0), abs=rounding_of(1, 2 * 12))
    assert result["sink"] == pytest.approx((alpha > 0.2).mean()) == pytest.approx(rows["Sink_1, eps 0.2"]["mean"])
    assert rows["alpha_1"]["at"] == f"L{result['layer']}H{result['head']}"
    assert result["alpha"].max() == rows["alpha_1"]["largest"]


def test_maps_of_an_operation_without_signs_have_none() -> None:
    maps = np.tril(np.full((1, 1, 4, 4), 0.2))
    maps[0, 0, 2, 1] = -0.2
    with refused(ValueError):
        sinkscope.record_maps([maps], [range(4)], operation="sigmoid")


def test_measure_uses_the_layer_numbers_of_the_model_and_the_place_of_the_first_token() -> None:
    make, layers = HYBRIDS["jamba"]
    prompts = [[i % 60 for i in prompt] for prompt in make_inputs(FAMILIES["llama"], 2)]
    recording = record(make(), prompts, first=2, eps=[0.03], keep=0)
    deviation = recording["deviation.sink_ratio"][0]
    [row] = [row for row in recording.table() if row["metric"] == "Sink_3, eps 0.03"]
    assert row["deviation"] == deviation[2] != deviation[0]
    result = recording.measure()
    alpha, sink = recording["mean.alpha"][..., 2], recording["mean.sink_ratio"][0]
    row, head = np.unravel_index(alpha.argmax(), alpha.shape)
    assert (result["layer"], result["head"]) == (layers[row], head)
    assert np.array_equal(result["alpha"], alpha)
    assert result["sink"] == sink[2] != sink[0]
    assert result["map"] is None and result["tokens"] is None


@pytest.mark.parametrize("text", ["=1", "a;=1", "a\t+1", "a|-1", "a\n@1", "\n=1", " ＝1", "\tb"])
def test_a_table_as_csv_has_no_cell_that_a_spreadsheet_would_take_for_a_formula(text: str) -> None:
    csv = Table([{"label": text, "mean": -0.5, "count": None}]).to_csv()
    assert csv.splitlines()[0] == "label,mean,count" and csv.endswith(",-0.5,\n")
    field = csv.removeprefix("label,mean,count\n").removesuffix(",-0.5,\n").strip('"')
    # Each list separator that a locale has, and each line of a text, begins a cell.
    assert not [cell for cell in re.split(r"[;|\t\n]", field) if re.match(r"\s*[=+\-@＝＋－＠]", cell)]
