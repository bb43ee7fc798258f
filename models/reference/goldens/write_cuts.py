"""Writes tests/golden/cuts.json: how files are split into texts and texts are cut into prompts of equal length.

    python -m models.reference.goldens.write_cuts

The npm package and the Python package must both give these results. Token ids and the mask of special tokens come from
the tokenizers library; files are split here line by line, without the regular expressions of either package.
"""

from typing import Any

import tokenizers
from tokenizers import Tokenizer

from ..files import write_json
from . import GOLDEN, REPOSITORY

FILES = [
    "one\ntwo\n\nthree\n",
    "\ufeffone\r\n \t\r\ntwo\rlines\r\n\r\n\r\n\r\nthree",
    "\n\n  def f():\n    return 1\n\n\t\n  x = f()  \n\n",
    "one\u2028line\u0085here\n\u00a0\n\nlast",
    " \n\t\n",
    "",
]
# They put a token before each text, tokens around it, and none.
TOKENIZERS = [
    "models/zoo/short/tokenizer.json",
    "tests/golden/tokenizers/bert/tokenizer.json",
    "tests/golden/tokenizers/gptneox/tokenizer.json",
]
TEXTS = [
    "The first token receives most of the attention, and nobody reads it.",
    "Short.",
    "  Spaces around, naïve café, 你好, 🙂 and a tail  ",
    "Attention sinks appear after some thousand steps of training, earlier with a larger learning rate.",
]
T = 8


def is_blank(text: str) -> bool:
    return all(character in " \t\n" for character in text)


def split(content: str) -> dict[str, list[str]]:
    """Returns the texts of a file for each way of splitting it."""
    content = content.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = content.split("\n")
    blocks: list[list[str]] = [[]]
    for line in lines:
        if is_blank(line):
            blocks.append([])
        else:
            blocks[-1].append(line)
    return {
        "lines": [line for line in lines if not is_blank(line)],
        "blocks": ["\n".join(block) for block in blocks if block],
        "whole": [] if is_blank(content) else [content.strip("\n")],
    }


def cut(tokenizer: Tokenizer, text: str) -> list[list[int]]:
    """Returns the text's consecutive prompts of T tokens, each with the special tokens around it."""
    encoding = tokenizer.encode(text)
    pairs = list(zip(encoding.ids, encoding.special_tokens_mask, strict=True))
    body_ids = [i for i, is_special in pairs if not is_special]
    front_ids = [i for i, _ in pairs[: encoding.special_tokens_mask.index(0)]]
    end_ids = [i for i, _ in pairs[len(front_ids) + len(body_ids) :]]
    body_length = T - len(front_ids) - len(end_ids)
    starts = range(0, len(body_ids) - body_length + 1, body_length)
    return [[*front_ids, *body_ids[start : start + body_length], *end_ids] for start in starts]


def main() -> None:
    cuts: dict[str, Any] = {}
    for name in TOKENIZERS:
        tokenizer = Tokenizer.from_file(str(REPOSITORY / name))
        prompts = [cut(tokenizer, text) for text in TEXTS]
        cuts[name] = {"beginnings": [p[0] for p in prompts if p], "last text": prompts[-1]}
    value = {
        "versions": {"tokenizers": tokenizers.__version__},
        "splits": [{"file": content, **split(content)} for content in FILES],
        "T": T,
        "texts": TEXTS,
        "cuts": cuts,
    }
    write_json(GOLDEN / "cuts.json", value)


if __name__ == "__main__":
    main()
