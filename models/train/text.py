"""Reads the corpora, and splits them into training documents, held-out documents and passages. This module does not
need torch."""

import hashlib
import re
from pathlib import Path

BOS, END = "<s>", "<|endoftext|>"  # ids 0 and 1
BOS_ID, END_ID = 0, 1
VOCABULARY = 1024

# The cards' numbers come from models trained on exactly these bytes, so other files are refused.
SHA256 = {
    "children_lit.txt": "9a87cc6bf98456e564b2d36b0a87985ad4db17a2f96ed4eeca0c4574ab5d8c1f",
    "storybooks_ccby.txt": "3d45cb1d288af8d3e3b875717af246d324f8433b7b735880fc2ba0eb70893a56",
}
HELD_OUT_EVERY = 12
SHARED_WORDS = 13  # texts overlap if they share this many consecutive words (Brown et al. 2020, appendix C)
PASSAGE_CHARACTERS = 320  # of the longest passage; every passage has at least 64 tokens
LONG_CHARACTERS = 640  # maximum of the passages of heldout-long; each has at least 120 tokens


def check_digest(name: str, data: bytes) -> None:
    digest = hashlib.sha256(data).hexdigest()
    if digest != SHA256[name]:
        raise ValueError(f"{name}: sha256 is {digest}, expected {SHA256[name]}")


def read_documents(corpora: Path) -> dict[str, list[str]]:
    """Reads the documents of each corpus, in order. Raises ValueError for a file with another digest."""
    texts_by_file = {}
    for name in SHA256:
        if not (corpora / name).exists():
            raise SystemExit(f"{corpora / name} is missing: python -m models.train.corpora {corpora} builds it")
        data = (corpora / name).read_bytes()
        check_digest(name, data)
        texts = data.decode("ascii").split(END)
        texts_by_file[name] = [text.strip() for text in texts if text.strip()]
    return texts_by_file


def _word_runs(text: str) -> set[tuple[str, ...]]:
    """Returns every run of SHARED_WORDS words, without case and without the characters between words."""
    words = re.findall(r"[a-z0-9']+", text.lower())
    return set(zip(*(words[i:] for i in range(SHARED_WORDS)), strict=False))


def split_documents(files: dict[str, list[str]]) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the training documents, and the held-out documents of each file.

    A held-out document that overlaps with a training document, such as a story that occurs twice, is left out.
    """
    last_index = HELD_OUT_EVERY - 1
    train_texts = [text for texts in files.values() for i, text in enumerate(texts) if i % HELD_OUT_EVERY != last_index]
    held_out = {name: texts[last_index::HELD_OUT_EVERY] for name, texts in files.items()}
    word_runs = {text: _word_runs(text) for texts in held_out.values() for text in texts}
    held_out_runs = set().union(*word_runs.values())
    shared_runs = set().union(*(held_out_runs & _word_runs(text) for text in train_texts))
    return train_texts, {
        name: [text for text in texts if not word_runs[text] & shared_runs] for name, texts in held_out.items()
    }


def documents(corpora: Path) -> tuple[list[str], list[str]]:
    train_texts, held_out = split_documents(read_documents(corpora))
    return train_texts, held_out["children_lit.txt"]


def passages(texts: list[str], count: int, characters: int = PASSAGE_CHARACTERS) -> list[str]:
    """Returns `count` passages, evenly spread, that begin paragraphs of at least `characters` characters."""
    paragraphs = [paragraph for text in texts for paragraph in text.split("\n") if len(paragraph) >= characters]
    step = len(paragraphs) / count
    passage_starts = [paragraphs[int((i + 0.5) * step)] for i in range(count)]
    # Cuts at the last space: no passage ends inside a word.
    return [p[: characters + 1].rsplit(" ", 1)[0] for p in passage_starts]
