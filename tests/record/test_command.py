"""Runs the command line on a saved checkpoint with a tokenizer, and reads files of texts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sinkscope
import transformers as tf
from families import FAMILIES
from safetensors.torch import load_file, save_file
from sentences import check_sentence, refused
from sinkscope import record_maps
from sinkscope.__main__ import main
from sinkscope.loading import load
from sinkscope.texts import read_texts
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ["<s>", "the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "."]
TEXTS = [" ".join(WORDS[1 + (i * j + j) % 10] for j in range(20)) for i in range(5)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saves a llama with a word tokenizer that prepends <s> to a text, and returns the folder."""
    out = tmp_path_factory.mktemp("model")
    FAMILIES["llama"].make("sdpa").save_pretrained(out)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="."))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    tf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>").save_pretrained(out)
    return out


def test_the_command_record_writes_the_result_of_the_function(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, out = tmp_path / "texts.json", tmp_path / "r.safetensors"
    texts.write_text(json.dumps(TEXTS))
    files = ["--texts", str(texts), "--out", str(out), "--id", "a model"]
    options = ["--tokens", "16", "--eps", "0.1,0.4", "--keep", "1", "--license", "MIT", "--json"]
    assert main(["record", str(folder), *files, *options]) == 0
    printed = json.loads(capsys.readouterr().out)
    result = sinkscope.Recording.open(out)
    loaded = load(folder, device="cpu")
    expected = sinkscope.record(loaded.model, loaded.tokenizer, TEXTS, 16, [0.1, 0.4], 1, progress=False)
    for key, value in expected.tensors.items():
        assert np.array_equal(result[key], value, equal_nan=value.dtype.kind == "f"), key
    assert result.conditions["first"] == {"token": "<s>", "id": 0, "position": 0}
    assert result.tokens(0)[:2] == ["<s>", WORDS[1]]
    assert result.conditions["license"] == "MIT" and result.model["id"] == "a model"
    assert result.conditions["prompts"]["source"] == "texts.json"
    assert result.conditions["command"].startswith("python -m sinkscope record ")
    assert [row["metric"] for row in printed] == [row["metric"] for row in result.table()]


def test_study_writes_one_recording_for_each_model(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    texts = tmp_path / "texts.txt"
    texts.write_text("\n\n".join(TEXTS))
    other = tmp_path / "other"
    other.symlink_to(folder)
    out = tmp_path / "study"
    options = ["--texts", str(texts), "--out", str(out), "--tokens", "16", "--prompts", "3"]
    assert main(["study", str(folder), str(other), *options]) == 0
    result = [sinkscope.Recording.open(path) for path in sorted(out.glob("*.safetensors"))]
    assert len(result) == 2
    assert {r.conditions["prompts"]["count"] for r in result} == {3}
    assert np.array_equal(result[0]["mean.alpha"], result[1]["mean.alpha"])


def test_a_folder_without_the_weights_of_a_layer_is_refused_since_transformers_would_draw_them(
    folder: Path, tmp_path: Path
) -> None:
    """An old GPTQ folder packs its weights into other tensors, and its config does not say so."""
    copy = tmp_path / "model"
    shutil.copytree(folder, copy)
    weights = load_file(copy / "model.safetensors")
    name = "model.layers.1.self_attn.q_proj.weight"
    weights[name.replace("weight", "qweight")] = weights.pop(name)
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    with refused(ValueError):
        load(copy)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--texts", "none.json"], "none.json"),
        (["--tokens", "1"], "tokens: expected 2 or more"),
        (["--tokens", "500"], "500 tokens or more"),
        (["--keep", "1", "--attention", "nothing"], "nothing"),
    ],
)
def test_errors_are_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps(TEXTS))
    with pytest.warns(UserWarning) if "500" in arguments else _nothing():
        assert main(["record", str(folder), "--texts", str(texts), "--out", str(tmp_path / "r"), *arguments]) == 1
    assert expected in capsys.readouterr().err


def _nothing() -> object:
    from contextlib import nullcontext

    return nullcontext()


def test_texts_are_read_from_json_json_lines_and_plain_text(tmp_path: Path) -> None:
    for name, content in (
        ("a.json", json.dumps(["one", "two\n\nlines"])),
        ("a.jsonl", '{"text": "one"}\n{"text": "two\\n\\nlines"}\n'),
        ("a.txt", "one\r\n\r\n\r\ntwo\r\nlines\r\n"),
    ):
        (tmp_path / name).write_text(content, newline="")
        assert [text.split() for text in read_texts(tmp_path / name)] == [["one"], ["two", "lines"]]
    for name, content in (("b.json", "{}"), ("b.json", "[1]"), ("b.txt", "\n\n"), ("b.jsonl", '{"a": 1}')):
        (tmp_path / name).write_text(content)
        with refused(ValueError):
            read_texts(tmp_path / name)


def test_control_characters_of_names_are_printed_as_escapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "\x1b]0;x\x07\x9b31m\u202e\r\n\tloss 0\x7f"
    recording = record_maps([np.array([[[[1, 0], [0.5, 0.5]]]])], [["a", "b"]], model_id=name)
    escaped_name = "\\u001b]0;x\\u0007\\u009b31m\\u202e\\u000d\\u000a\\u0009loss 0\\u007f"
    assert escaped_name in repr(recording) and str(recording.table()).startswith(escaped_name)
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps(TEXTS))
    assert main(["record", "./" + name, "--texts", str(texts), "--out", str(tmp_path / "r")]) == 1
    output = capsys.readouterr().err
    assert "\\u001b]0;x" in output and not set(output) & set("\x1b\x07\x9b\u202e\r\x7f")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("recorded") / "r.safetensors"
    maps = np.tril(np.ones((2, 2, 2, 4, 4), np.float32))
    sinkscope.record_maps(maps / maps.sum(-1, keepdims=True), [["a", "b", "c", "d"]] * 2).save(out)
    return out


def run_into(output: int, *arguments: str | Path) -> tuple[int, str]:
    """Runs the command with its standard output in a file that takes nothing; returns its status and errors."""
    environment = {key: x for key, x in os.environ.items() if key != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "sinkscope", *arguments]
    done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    return done.returncode, done.stderr


COMMANDS = (["--version"], ["measure", "--json"])


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_an_output_that_takes_nothing_ends_a_command_with_one_sentence_and_a_closed_one_quietly(
    recorded: Path, arguments: list[str]
) -> None:
    file = [recorded] if arguments[0] == "measure" else []
    with open("/dev/full", "wb") as full:
        status, sentence = run_into(full.fileno(), *arguments, *file)
    assert status == 1
    check_sentence(sentence, Path(__file__))
    end, pipe = os.pipe()
    os.close(end)
    assert run_into(pipe, *arguments, *file) == (0, "")
    os.close(pipe)


def test_a_file_of_texts_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(ValueError):
        read_texts("/dev/zero")
    monkeypatch.setattr(sinkscope.texts, "TEXT_BYTES_MAX", 4)
    file = tmp_path / "texts.txt"
    file.write_bytes(b"abcd")
    assert read_texts(file) == ["abcd"]
    file.write_bytes(b"abcde")
    with refused(ValueError):
        read_texts(file)
