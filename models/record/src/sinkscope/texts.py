"""Reads files of texts, and takes texts out of data sets. This module does not import torch, so that the driver of a
study needs little memory."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from io import StringIO
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

TEXT_BYTES_MAX = 2**31  # of a file of texts


def select_texts(
    source: Iterable[Any], column: str | None = None, take: int | None = None, by: str | None = None
) -> list[Any]:
    """Returns the texts of anything iterable, in its order.

    source: texts, or rows with columns: mappings, a `datasets.Dataset` (also one that streams), or a pandas DataFrame.
    column: the rows' column of texts; None if `source` has the texts themselves.
    take: the largest number of texts; None takes all. Without `by` no later row is read.
    by: a column of labels. Of the rows of each label the first are taken, as many as its share of all rows (by
        largest remainder; among equal ones the label that comes first).

    Raises ValueError for a column that a row lacks, and for rows without `column`.
    """
    if take is not None and (not isinstance(take, int) or take < 1):
        raise ValueError(f"take: expected 1 or more, found {take!r}")
    if by is not None and (column is None or take is None):
        raise ValueError("by: expected column= and take= beside it, found none")
    is_single = isinstance(source, str | bytes | Mapping) or getattr(source, "ndim", 1) == 0
    if is_single or not isinstance(source, Iterable):
        raise ValueError(
            f"texts: expected a list of texts, lists of ids or mappings, found a "
            f"{type(source).__name__} alone: put it into a list"
        )
    names = getattr(source, "column_names", None) or getattr(source, "columns", None)
    if column is None:
        if names is not None:
            raise ValueError(f"column: expected one of {', '.join(map(str, names))}, found none")
        return list(islice(source, take))
    rows = source.to_dict("records") if hasattr(source, "iterrows") else source
    if by is None:
        return [_cell(row, column, i) for i, row in enumerate(islice(rows, take))]
    pairs = [(_cell(row, column, i), _cell(row, by, i)) for i, row in enumerate(rows)]
    quotas = _quotas(Counter(label for _, label in pairs), min(take or 0, len(pairs)))
    texts = []
    for text, label in pairs:
        if quotas[label] > 0:
            quotas[label] -= 1
            texts.append(text)
    return texts


def _cell(row: Any, column: str, index: int) -> Any:
    if not isinstance(row, Mapping) or column not in row:
        found = f"the columns {', '.join(map(str, row))}" if isinstance(row, Mapping) else f"a {type(row).__name__}"
        raise ValueError(f"texts, row {index}: expected the column {column!r}, found {found}")
    return row[column]


def _quotas(counts: Counter[Any], total: int) -> dict[Any, int]:
    """Splits `total` in proportion to the counts, by largest remainder."""
    shares = {label: total * n / counts.total() for label, n in counts.items()}
    quotas = {label: int(share) for label, share in shares.items()}
    by_remainder = sorted(shares, key=lambda label: quotas[label] - shares[label])
    for label in by_remainder[: total - sum(quotas.values())]:
        quotas[label] += 1
    return quotas


def read_texts(
    path: str | PathLike[str], column: str = "text", take: int | None = None, by: str | None = None
) -> list[str]:
    """Reads the texts of a file: a JSON list of strings (.json), lines of {"text": ...} (.jsonl), a table (.csv,
    .parquet), or plain text with blank lines between the texts. `column`, `take` and `by` are those of
    `select_texts`; a file of texts alone has no columns."""
    path = Path(path)
    rows = _read_rows(path, column)
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], str | Mapping):
        raise ValueError(f"{path}: expected one text or more, found none or something else")
    if isinstance(rows[0], str) and (by is not None or column != "text"):
        raise ValueError(f"{path}: expected rows with columns, found texts alone")
    try:
        texts = select_texts(rows, None if isinstance(rows[0], str) else column, take, by)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{path}, row {i}: expected one text or more, found a {type(text).__name__}")
    return texts


def _read_rows(path: Path, column: str) -> Any:
    """Returns the texts of a file, or its rows as mappings."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_table(path).to_pylist()
    try:
        content = _read_bytes(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        if path.suffix == ".csv":
            return list(csv.DictReader(StringIO(content, newline="")))
        if path.suffix == ".json":
            return json.loads(content)
        if path.suffix == ".jsonl":
            # Splits at line feeds alone: U+2028 may occur inside a JSON string.
            return [
                _parse_line(line, column, f"{path}, line {i}")
                for i, line in enumerate(content.split("\n"), 1)
                if line.strip()
            ]
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: expected {'JSON' if path.suffix == '.json' else 'text'} in UTF-8, found something else: {error}"
        ) from error
    # splitText of the npm package splits into blocks by the same rule.
    blocks = re.split(r"\n(?:[ \t]*\n)+", content)
    return [block.strip("\n") for block in blocks if block.strip(" \t\n")]


def _read_bytes(path: Path) -> bytes:
    """Reads a file or a pipe, neither of which need end."""
    if path.is_char_device():
        raise ValueError(f"{path}: expected a file of texts, found a device")
    with path.open("rb") as file:
        content = file.read(TEXT_BYTES_MAX + 1)
    if len(content) > TEXT_BYTES_MAX:
        raise ValueError(f"{path}: expected at most {TEXT_BYTES_MAX} bytes, found more")
    return content


def _parse_line(line: str, column: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f'{place}: expected {{"{column}": ...}}, found no JSON: {error}') from error
    if not isinstance(row, dict) or not isinstance(row.get(column), str):
        raise ValueError(
            f'{place}: expected one text or more as {{"{column}": ...}}, found '
            f"{'no text' if isinstance(row, dict) else 'a ' + type(row).__name__}"
        )
    return row
