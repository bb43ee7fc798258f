"""Checks that files are split into texts and texts are cut into prompts as tests/golden/cuts.json says, by which
tests/wasm/cuts.test.mjs tests the npm package and web/test/question.test.ts the page."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from families import FAMILIES
from sentences import refused
from sinkscope.recorder import Recorder
from sinkscope.settings import Settings
from sinkscope.texts import read_texts
from transformers import PreTrainedTokenizerFast

ROOT = Path(__file__).parents[2]
GOLDEN: dict[str, Any] = json.loads((ROOT / "tests/golden/cuts.json").read_text())


@pytest.mark.parametrize("split", GOLDEN["splits"], ids=lambda split: repr(split["file"]))
def test_blank_lines_separate_the_texts_of_a_file(split: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text(split["file"], encoding="utf-8", newline="")
    if split["blocks"]:
        assert read_texts(path) == split["blocks"]
    else:
        with refused(ValueError):
            read_texts(path)


@pytest.mark.parametrize("path", GOLDEN["cuts"])
@pytest.mark.filterwarnings("ignore:.*are left out")
def test_a_prompt_is_the_beginning_of_its_text(path: str) -> None:
    separators = {"cls_token": "[CLS]", "sep_token": "[SEP]"} if "bert" in path else {}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(ROOT / path), **separators)
    recorder = Recorder(FAMILIES["llama"].make("eager"), tokenizer, Settings(tokens=GOLDEN["T"]))
    prompts = recorder.make_prompts(GOLDEN["texts"])
    assert [prompt.ids for prompt in prompts] == GOLDEN["cuts"][path]["beginnings"]


def test_a_text_that_repeats_the_start_token_is_noted() -> None:
    path = ROOT / "models/zoo/softmax/tokenizer.json"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path), bos_token="<s>")
    recorder = Recorder(FAMILIES["llama"].make("eager"), tokenizer, Settings(tokens=3))
    note = r"^1 of 2 texts begin with <s>"
    with pytest.warns(UserWarning, match=note):
        recorder.make_prompts(["<s>The old man", "The old man"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Ids are what the caller chose.
        recorder.make_prompts(["The old man", [0, 0, 17]])
