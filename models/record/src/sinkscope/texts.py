"""Reads files of texts. This module does not import torch, so that the driver of a study needs little memory."""

import json
import re
from os import PathLike
from pathlib import Path


def read_texts(path: str | PathLike[str]) -> list[str]:
    """Reads the texts of a file: a JSON list of strings (.json), lines of {"text": ...} (.jsonl), or plain text with
    blank lines between the texts."""
    path = Path(path)
    try:
        content = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".json":
            texts = json.loads(content)
        elif path.suffix == ".jsonl":
            # Splits at line feeds alone: U+2028 may occur inside a JSON string.
            texts = [_parse_line(line, f"{path}, line {i}") for i, line in enumerate(content.split("\n"), 1)
                     if line.strip()]
        else:
            # splitText of the npm package splits into blocks by the same rule.
            blocks = re.split(r"\n(?:[ \t]*\n)+", content)
            texts = [block.strip("\n") for block in blocks if block.strip(" \t\n")]
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected {'JSON' if path.suffix == '.json' else 'text'} in UTF-8, "
                         f"found something else: {error}") from error
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{path}: expected one text or more, found none or something else")
    return texts


def _parse_line(line: str, place: str) -> str:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f'{place}: expected {{"text": ...}}, found no JSON: {error}') from error
    text = row.get("text") if isinstance(row, dict) else None
    if not isinstance(text, str):
        raise ValueError(f'{place}: expected one text or more as {{"text": ...}}, found '
                         f"{'no text' if isinstance(row, dict) else 'a ' + type(row).__name__}")
    return text
