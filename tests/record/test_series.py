"""Checks series of checkpoints, and the numbers that a model's training logs."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
import transformers
from families import FAMILIES, make_inputs
from safetensors import safe_open
from safetensors.numpy import save_file
from sentences import refused
from sinkscope.__main__ import main
from sinkscope.recording import RecordingError, confidence_interval
from truth import alpha64, eager64, rounding_of, tolerance_of

ROOT = Path(__file__).parents[2]
TEXTS = [
    f"The old man and the sea, the {word} and the boat of the long day were gone."
    for word in ("house", "river", "night", "child", "bird")
]
T, K = 12, 8


def make_model(seed: int) -> transformers.PreTrainedModel:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=1024,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.5,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trainer's folder: checkpoints in other than alphabetic order, and a folder that is none."""
    root = tmp_path_factory.mktemp("trained")
    for step in (0, 200, 1000, 30):
        make_model(step).save_pretrained(root / f"checkpoint-{step}")
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(ROOT / "models/zoo/softmax" / name, root / f"checkpoint-{step}")
    (root / "runs1").mkdir()
    return root


@pytest.fixture(scope="module")
def series(checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sinkscope.Series]:
    out = tmp_path_factory.mktemp("out") / "series.safetensors"
    yield sinkscope.series(checkpoints, TEXTS, out=out, tokens=T)
    assert [path.name for path in out.parent.iterdir()] == ["series.safetensors"]


def test_a_series_has_the_numbers_of_each_checkpoint(series: sinkscope.Series, checkpoints: Path) -> None:
    assert series.steps == [0, 30, 200, 1000]
    names = [recording.conditions["model"]["id"] for recording in series.recordings]
    assert names == [f"{checkpoints.name}@checkpoint-{step}" for step in series.steps]
    assert series.title.startswith(f"{checkpoints.name}: 4 checkpoints")
    table = series.table()
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoints / "checkpoint-0")
    for step in series.steps:
        model = make_model(step)
        maps = [eager64(model, input_ids=torch.tensor([tokenizer(text).input_ids[:T]])) for text in TEXTS]
        alpha = np.array([alpha64(att, 0) for att in maps])
        rows = {row["metric"]: row for row in table if row["step"] == step}
        bound = max(tolerance_of(att, K) for att in maps)
        assert abs(rows["alpha_1"]["mean"] - alpha.mean()) <= bound
        assert abs(rows["alpha_1, strongest head"]["mean"] - alpha.mean(0).max()) <= bound
        interval = rows["alpha_1"]["low"], rows["alpha_1"]["high"]
        assert np.abs(np.subtract(interval, confidence_interval(alpha.mean((1, 2))))).max() <= 10 * bound
        batches = [torch.tensor([tokenizer(text).input_ids[:T]]) for text in TEXTS]
        loss = [model(batch, labels=batch).loss for batch in batches]
        assert abs(rows["loss"]["mean"] - torch.stack(loss).mean().item()) < 1e-4
    frame = series.to_pandas()
    assert set(frame["step"]) == {0, 30, 200, 1000} and len(frame) == 4 * len(series.recordings[0].to_pandas())


def test_a_series_is_read_back(series: sinkscope.Series, tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    assert series.save(path) == path.stat().st_size
    other = sinkscope.Series.open(path)
    assert other.steps == series.steps and other.table().to_csv() == series.table().to_csv()
    for a, b in zip(series.recordings, other.recordings, strict=True):
        assert a.conditions == b.conditions and a.tensors.keys() == b.tensors.keys()
        assert all(np.array_equal(a[name], b[name], equal_nan=True) for name in a.tensors)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["steps"].reverse(),
        lambda content: content["steps"].pop(),
        lambda content: content["recordings"][1].pop("eps"),
        lambda content: content.pop("steps"),
        lambda content: content["recordings"][0]["model"].update(L=3, layers=None),
    ],
)
def test_damaged_series_are_refused(series: sinkscope.Series, tmp_path: Path, change: Any) -> None:
    path = tmp_path / "s.safetensors"
    series.save(path)
    with safe_open(path, framework="numpy") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    content = json.loads(metadata["sinkscope"])
    change(content)
    save_file(tensors, path, metadata | {"sinkscope": json.dumps(content)})
    with refused(RecordingError):
        sinkscope.Series.open(path)
    save_file(tensors | {"7/mean.alpha": np.zeros(1)}, path, metadata)
    with refused(RecordingError):
        sinkscope.Series.open(path)
    save_file(tensors, path, {})
    with refused(RecordingError):
        sinkscope.Series.open(path)


def test_a_series_that_was_killed_goes_on(checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sinkscope import blocks

    out, loaded, load = tmp_path / "s.safetensors", [], blocks.load

    def count(name: str, **options: Any) -> Any:
        loaded.append(Path(name).name)
        if len(loaded) == 3:
            raise KeyboardInterrupt
        return load(name, **options)

    monkeypatch.setattr(blocks, "load", count)
    with pytest.raises(KeyboardInterrupt):
        sinkscope.series(checkpoints, TEXTS, out=out, tokens=T)
    assert loaded == ["checkpoint-0", "checkpoint-30", "checkpoint-200"] and not out.exists()
    sinkscope.series(checkpoints, TEXTS, out=out, tokens=T)
    assert loaded[3:] == ["checkpoint-200", "checkpoint-1000"]


def test_a_checkpoint_that_cannot_be_recorded_is_named(checkpoints: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(checkpoints, root)
    (root / "checkpoint-200" / "model.safetensors").write_bytes(b"damaged")
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="checkpoint-200: expected a recording"):
        sinkscope.series(root, TEXTS, out=tmp_path / "s.safetensors", tokens=T)


@pytest.mark.parametrize(
    "options",
    [
        {"revisions": ["main"]},
        {"revisions": ["step1", "step01"]},
        {"revisions": ["a", "b"], "steps": [1]},
        {"revisions": "step1"},
        {"revisions": []},
        {},
    ],
)
def test_revisions_without_steps_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with refused(ValueError):
        sinkscope.series("EleutherAI/pythia-70m", TEXTS, out=tmp_path / "s.safetensors", **options)


def test_the_command_records_a_series(
    checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], series: sinkscope.Series
) -> None:
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    out = tmp_path / "s.safetensors"
    command = ["record", str(checkpoints), "--texts", str(tmp_path / "texts.json"), "--tokens", str(T), "--keep", "1"]
    assert main([*command, "--revisions", "all", "--out", str(out), "--csv"]) == 0
    assert capsys.readouterr().out == series.table().to_csv()
    chosen = [*command, "--revisions", "checkpoint-30,checkpoint-0", "--out", str(out), "--csv"]
    assert main(chosen) == 0
    assert sinkscope.Series.open(out).steps == [0, 30]
    with pytest.warns(UserWarning, match="generate: expected the part"):
        assert main([*chosen, "--generate", "3"]) == 1


def test_a_series_is_drawn(series: sinkscope.Series) -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    assert "Sink_1, eps 0.3" in series.picture(format="svg").decode()
    assert "loss (nat)" in series.picture("loss", "svg", "text").decode()
    with refused(ValueError):
        series.picture("sinks")


def train(monitor: bool) -> tuple[list[float], list[tuple[int, dict[str, float]]], transformers.PreTrainedModel]:
    """Trains a model with dropout for six steps in a plain loop; returns its losses and what was logged."""
    model = make_model(1)
    model.config.attention_dropout = 0.1
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "models/zoo/softmax")
    logged: list[tuple[int, dict[str, float]]] = []
    watch = (
        sinkscope.Monitor(
            model, tokenizer, TEXTS, every=3, tokens=T, log=lambda numbers, step: logged.append((step, dict(numbers)))
        )
        if monitor
        else None
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    ids = torch.tensor([tokenizer(text).input_ids[:T] for text in TEXTS])
    losses = []
    model.train()
    torch.manual_seed(3)
    for step in range(6):
        if watch:
            watch.step(step)
            assert model.training
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, logged, model


def test_a_monitor_logs_the_numbers_of_a_recording_and_changes_nothing() -> None:
    losses, logged, model = train(monitor=True)
    assert losses == train(monitor=False)[0]
    assert [step for step, _ in logged] == [0, 3]
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "models/zoo/softmax")
    numbers = sinkscope.Monitor(model, tokenizer, TEXTS, tokens=T).measure()
    maps = [eager64(model, input_ids=torch.tensor([tokenizer(text).input_ids[:T]])) for text in TEXTS]
    alpha = np.array([alpha64(att, 0) for att in maps])
    bound = max(tolerance_of(att, K) for att in maps)
    assert abs(numbers["sinkscope/alpha_1"] - alpha.mean()) <= bound
    assert abs(numbers["sinkscope/alpha_max"] - alpha.mean(0).max()) <= bound
    assert abs(numbers["sinkscope/sink_1"] - (alpha > 0.3).mean()) < rounding_of(1)
    assert set(numbers) == {
        f"sinkscope/{name}" for name in ("sink_1", "alpha_1", "alpha_max", "hidden_ratio", "key_ratio", "value_ratio")
    }
    with pytest.raises(ValueError, match="every: expected 1 or more"):
        sinkscope.Monitor(model, tokenizer, TEXTS, every=0)


def test_a_monitor_measures_the_weight_where_rows_need_not_sum_to_1() -> None:
    family = FAMILIES["gpt_oss"]
    model = family.make("eager")
    prompts = [[i % 60 for i in prompt] for prompt in make_inputs(family, 3)]
    numbers = sinkscope.Monitor(model, None, prompts, tokens=T, eps=0.1).measure()
    maps = [eager64(model, input_ids=torch.tensor([prompt[:T]])) for prompt in prompts]
    alpha = np.array([alpha64(att, 0) for att in maps])
    bound = max(tolerance_of(att, K) for att in maps)
    sums = np.array([np.asarray(att).sum(-1).mean() for att in maps])
    assert sums.mean() < 0.95
    assert abs(numbers["sinkscope/alpha_1"] - alpha.mean()) <= bound
    assert abs(numbers["sinkscope/alpha_max"] - alpha.mean(0).max()) <= bound
    assert abs(numbers["sinkscope/sink_1"] - (alpha > 0.1).mean()) < rounding_of(1)
    assert abs(numbers["sinkscope/row_mass"] - sums.mean()) <= bound


def test_a_trainer_logs_through_its_own_trackers(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    seen: list[tuple[int, dict[str, float]]] = []

    class Tracker(transformers.TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            seen.append((state.global_step, dict(logs)))

    model = make_model(2)
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "models/zoo/softmax")
    rows = [{"input_ids": ids, "labels": ids} for text in TEXTS for ids in [tokenizer(text).input_ids[:T]]] * 2
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        max_steps=5,
        report_to=[],
        use_cpu=True,
        logging_steps=100,
        per_device_train_batch_size=2,
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(model, arguments, train_dataset=rows, callbacks=[Tracker()])
    sinkscope.Monitor(model, tokenizer, TEXTS, every=2, tokens=T).attach(trainer)
    trainer.train()
    logged = [(step, logs) for step, logs in seen if "sinkscope/sink_1" in logs]
    assert [step for step, _ in logged] == [0, 2, 4]
    assert logged[0][1]["sinkscope/alpha_1"] != logged[2][1]["sinkscope/alpha_1"]


@pytest.mark.parametrize("option", [None, "--heads", "--long"])
def test_the_command_line_measures_a_series(option: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "tests/golden/series.safetensors"
    assert main(["measure", str(path), "--json", *([option] if option else [])]) == 0
    rows = json.loads(capsys.readouterr().out)
    series = sinkscope.Series.open(path)
    assert {row["step"] for row in rows} == set(series.steps)
    counts = {
        None: len(series.table()),
        "--heads": sum(len(recording.heads()) for recording in series.recordings),
        "--long": len(series.to_pandas()),
    }
    assert len(rows) == counts[option]


def test_a_checkpoint_that_cannot_be_recorded_says_why(tmp_path: Path) -> None:
    (tmp_path / "step_1").mkdir()
    (tmp_path / "step_1/config.json").write_text('{"model_type": "nothing"}')
    refusal = "step_1: ValueError: Couldn.t instantiate"
    with pytest.warns(UserWarning, match=refusal), pytest.raises(RuntimeError, match=refusal):
        sinkscope.series(tmp_path, TEXTS, out=tmp_path / "s.safetensors", tokens=T)
