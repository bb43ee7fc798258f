"""Checks a recording as data frames and Parquet, texts taken from data sets, pictures for papers, spans of tokens, and
generated tokens."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
from families import FAMILIES, D, L, T, make_inputs, record
from sentences import refused
from sinkscope.__main__ import main
from sinkscope.texts import read_texts, select_texts
from truth import F16_ROUNDING, alpha64, eager64, tolerance_of

PROMPTS = make_inputs(FAMILIES["gpt_oss"], 4)
ROWS = [{"text": f"text {i}", "source": "ab"[i % 4 == 0], "id": i} for i in range(12)]


@pytest.fixture(scope="module")
def recording() -> sinkscope.Recording:
    return record(FAMILIES["gpt_oss"].make("eager"), PROMPTS, maps="full")


def test_the_long_table_has_each_number_once(recording: sinkscope.Recording) -> None:
    frame = recording.to_pandas()
    assert list(frame.columns) == ["prompt", "layer", "head", "quantity", "eps", "value", "deviation", "unit"]
    assert not frame.duplicated(["prompt", "layer", "head", "quantity", "eps"]).any()
    model = FAMILIES["gpt_oss"].make("eager")
    maps = [eager64(model, input_ids=torch.tensor([prompt])) for prompt in PROMPTS]
    heads = frame[(frame.quantity == "alpha_raw") & frame["head"].notna()].set_index(["prompt", "layer", "head"]).value
    for prompt in range(2):
        truth = alpha64(maps[prompt][..., :T], 0)
        for layer, head in np.ndindex(truth.shape):
            error = abs(heads.loc[prompt, layer, head] - truth[layer, head])
            # Kept alphas are stored as float16.
            assert error - F16_ROUNDING <= tolerance_of(maps[prompt], model.config.head_dim)
    means = frame[frame["prompt"].isna() & (frame.quantity == "alpha_raw")].value.to_numpy()
    truth = np.mean([alpha64(x[..., :T], 0) for x in maps], 0)
    assert np.abs(means - truth.ravel()).max() <= max(tolerance_of(x, model.config.head_dim) for x in maps)
    for name, key in (("loss_mean", "loss"), ("hidden_ratio", "hidden_ratio"), ("sink_ratio", "sink_1")):
        of_prompts = frame[(frame.quantity == name) & frame["prompt"].notna() & frame["head"].isna()].value
        assert np.array_equal(of_prompts, recording[f"prompt.{key}"].ravel()), name
    ratios = frame[(frame.quantity == "value_ratio") & frame["prompt"].isna()].value.to_numpy()
    groups = recording.model["H"] // recording.model["G"]
    assert np.array_equal(ratios.reshape(-1, groups)[:, 0], recording["mean.value_ratio"].ravel())
    assert set(frame[frame.quantity == "hidden_ratio"].layer.dropna()) == {-1, *recording.layers}


def test_the_wide_table_has_the_same_numbers(recording: sinkscope.Recording, tmp_path: Path) -> None:
    long, wide = recording.to_pandas(), recording.to_pandas(wide=True)
    assert not wide.duplicated(["prompt", "layer", "head"]).any()
    assert wide.drop(columns=["prompt", "layer", "head"]).notna().sum().sum() == long.value.notna().sum()
    row = long[(long.quantity == "sink_ratio") & (long["prompt"] == 1)].iloc[2]
    cell = wide[(wide["prompt"] == 1) & wide["layer"].isna()][f"sink_ratio_{row.eps:g}"]
    assert cell.item() == row.value


def test_failed_prompts_keep_their_numbers(recording: sinkscope.Recording) -> None:
    tensors = recording.tensors | {"prompt.failed": np.array([1, 0, 0, 0], np.uint8)}
    frame = sinkscope.Recording(recording.conditions, tensors).to_pandas()
    assert set(frame[frame["head"].notna() & frame["prompt"].notna()]["prompt"]) == {1, 2}


@pytest.mark.parametrize("wide", [False, True])
def test_parquet_has_the_rows_of_the_frame(recording: sinkscope.Recording, tmp_path: Path, wide: bool) -> None:
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "rows.parquet"
    assert recording.to_parquet(path, wide) == path.stat().st_size
    frame, stored = recording.to_pandas(wide), pandas.read_parquet(path)
    pandas.testing.assert_frame_equal(frame, stored.astype(frame.dtypes.to_dict()))


def test_the_command_prints_the_long_table(
    recording: sinkscope.Recording, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording.save(tmp_path / "r.safetensors")
    assert main(["measure", str(tmp_path / "r.safetensors"), "--csv", "--long"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split(",") == list(recording.to_pandas().columns) and len(lines) == 1 + len(recording.to_pandas())


class Streamed:
    """Stands for a `datasets.IterableDataset`, which has column names and reads rows one after another."""

    column_names = ["text", "source"]

    def __init__(self) -> None:
        self.read = 0

    def __iter__(self) -> Any:
        for row in ROWS:
            self.read += 1
            yield row


def test_texts_are_taken_from_anything_iterable() -> None:
    pandas = pytest.importorskip("pandas")
    expected = [f"text {i}" for i in range(5)]
    streamed = Streamed()
    for source in (ROWS, iter(ROWS), streamed, pandas.DataFrame(ROWS)):
        assert select_texts(source, "text", 5) == expected
    assert streamed.read == 5
    assert select_texts((row["text"] for row in ROWS), take=2) == expected[:2]
    assert select_texts([[1, 2], {"input_ids": [3]}]) == [[1, 2], {"input_ids": [3]}]


@pytest.mark.parametrize(
    ("take", "expected"),
    [
        (1, {"a": 1, "b": 0}),
        (4, {"a": 3, "b": 1}),
        (6, {"a": 4, "b": 2}),
        (12, {"a": 9, "b": 3}),
        (50, {"a": 9, "b": 3}),
    ],
)
def test_each_label_gets_its_share(take: int, expected: dict[str, int]) -> None:
    taken = select_texts(ROWS, "text", take, by="source")
    labels = {row["text"]: row["source"] for row in ROWS}
    assert {label: [labels[text] for text in taken].count(label) for label in "ab"} == expected
    assert taken == [row["text"] for row in ROWS if row["text"] in taken]


@pytest.mark.parametrize(
    "arguments",
    [
        (ROWS, "words"),
        (ROWS, "text", 3, "kind"),
        (["a"], "text"),
        (Streamed(),),
        (ROWS, "text", 0),
        (ROWS, "text", None, "source"),
        ("one text",),
        (3,),
    ],
)
def test_wrong_selections_are_refused(arguments: tuple[Any, ...]) -> None:
    with refused(ValueError):
        select_texts(*arguments)


def test_a_dataset_of_hugging_face_is_recorded() -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = datasets.Dataset.from_list([{"ids": prompt} for prompt in PROMPTS])
    model = FAMILIES["gpt_oss"].make("eager")
    recording = record(model, rows, column="ids", take=3)
    expected = record(model, PROMPTS[:3])
    assert np.array_equal(recording["prompt.alpha_1"], expected["prompt.alpha_1"])


def test_files_of_rows_are_read_by_column(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "a.json").write_text(json.dumps(ROWS))
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    lines = ["text,source,id", *(",".join(map(str, row.values())) for row in ROWS)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    for suffix in ("json", "jsonl", "csv", "parquet"):
        path = tmp_path / f"a.{suffix}"
        assert read_texts(path, "text", 6, "source") == select_texts(ROWS, "text", 6, "source"), suffix
        with pytest.raises(ValueError, match="line 1|row 0"):
            read_texts(path, "words")
    (tmp_path / "texts.txt").write_text("one\n\ntwo")
    assert read_texts(tmp_path / "texts.txt", take=1) == ["one"]
    with refused(ValueError):
        read_texts(tmp_path / "texts.txt", take=1, by="source")


@pytest.mark.parametrize("name", ["gpt_oss", "bert"])
def test_a_span_of_tokens_has_one_share(name: str) -> None:
    family = FAMILIES[name]
    model, prompt = family.make("eager"), make_inputs(family, 1)[0]
    recording = record(model, [prompt], maps="full")
    att = eager64(model, input_ids=torch.tensor([prompt]))[..., :T]
    bound = tolerance_of(att, L * D)
    for tokens in ([0], [3], [0, 1, 7], [7, 0, 1, 1]):
        rows = att if name == "bert" else att[..., max(tokens) :, :]
        expected = rows[..., sorted(set(tokens))].sum(-1).mean(-1).numpy()
        assert np.abs(recording.share(tokens) - expected).max() < len(tokens) * F16_ROUNDING + bound, tokens
    for tokens in ([], [T], [-1]):
        with pytest.raises(ValueError, match="tokens: expected positions from 0"):
            recording.share(tokens)
    pooled = record(model, [prompt], maps="pooled")
    with pytest.raises(ValueError, match="expected full maps"):
        pooled.share([0])


@pytest.mark.parametrize(("width", "part"), [("column", None), ("text", "heads"), ("text", "map")])
def test_a_picture_for_a_paper_has_its_width_and_letters(
    recording: sinkscope.Recording, width: str, part: str | None
) -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    pdf = sinkscope.picture(recording, format="pdf", width=width, part=part)
    inches = {"column": 3.3, "text": 6.9}[width]
    box = pdf[pdf.index(b"/MediaBox [") + 11 :].split(b"]")[0].split()
    assert abs(float(box[2]) - 72 * inches) < 0.1 and b"/FontFile2" in pdf
    svg = sinkscope.picture(recording, format="svg", width=width, part=part).decode()
    assert ("attention of L" in svg) == (part != "heads") and ("alpha_1" in svg) == (part != "map")
    for options, expected in (({"width": "page"}, "width: expected column or text"), ({"part": "x"}, "part: expected")):
        with pytest.raises(ValueError, match=expected):
            sinkscope.picture(recording, **options)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_oss", "mistral"])
def test_generated_tokens_have_the_rows_of_the_whole_text(name: str) -> None:
    family = FAMILIES[name]
    model = family.make("eager")
    prompts = [prompt[:10] for prompt in make_inputs(family, 2)]
    recording = record(model, prompts, tokens=8, generate=12)
    assert recording.conditions["prompts"]["T"] == 20 and recording.conditions["prompts"]["generated"] == 12
    assert "20 tokens (12 of them generated)" in recording.caption()
    assert recording.model["family"] == model.config.model_type
    with torch.no_grad():
        for i, prompt in enumerate(prompts):
            ids = [int(token) for token in recording.tokens(i)]
            assert ids[:8] == prompt[:8]
            logits = model(torch.tensor([ids])).logits[0]
            assert logits[7:-1].argmax(-1).tolist() == ids[8:]
            att = eager64(model, input_ids=torch.tensor([ids]))[..., :20]
            assert np.abs(recording.attention(i) - att.numpy()).max() - F16_ROUNDING < tolerance_of(att, 16)


def test_what_cannot_generate_is_refused() -> None:
    family = FAMILIES["bert"]
    with refused(ValueError):
        record(family.make("eager"), make_inputs(family, 1), tokens=8, generate=3)
    with refused(ValueError):
        record(FAMILIES["llama"].make("eager"), [[5, 6, 7]], tokens=3, generate=-2)
