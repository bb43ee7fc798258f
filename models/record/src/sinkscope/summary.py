"""The summary of a recording: its metrics, their units and shapes, and tables of them. This module needs no torch."""

import re
from typing import Any

import numpy as np

# Where a spreadsheet would begin to read a formula, as in wasm/study/csv.ts.
FORMULA_STARTS = re.compile(r"^(?=[\t\r])|(?:(?<=[;|\t\r\n])|^)(?=\s*[=+\-@＝＋－＠])")
# The published names of the metric of row sums and of the field of visible keys.
ROW_SUM, SEEN = "row_mass", "seen"
# NAME in `prompt.NAME`, for metrics whose numbers by prompt have another name.
PROMPT_NAMES = {"alpha": "alpha_1", "sink_ratio": "sink_1", "loss_mean": "loss"}
# Operations whose weights have signs, in the core's table those of the proxy `share_abs`.
SIGNED_OPERATIONS = ("identity", "identity_norm", "elu1_kernel", "mlp_kernel", "mlp_kernel_norm")
METRICS_WITH_RANGE = ("alpha", "entropy_mean", "distance", "contribution", "cos_gap", "loss_mean")
# The metrics of the summary: name, label for the first token's position k, unit in the core's table, which of its
# numbers the summary covers (those of each eps, or a choice of `_summary_part`), and shape: E is the number of eps, B
# is blocks + 1.
SUMMARY = (
    ("alpha", "alpha_{k}", "share", "first", "LHT"),
    ("alpha_raw", "raw alpha_{k}", "weight", "first", "LHT"),
    ("sink_ratio", "Sink_{k}", "share of heads", "eps", "ET"),
    ("sink_ratio_raw", "raw Sink_{k}", "share of heads", "eps", "ET"),
    (ROW_SUM, "row sum", "weight", "rows", "LHT"),
    ("entropy_mean", "entropy", "of ln n", "all", "LH"),
    ("distance", "distance", "tokens", "all", "LH"),
    ("contribution", "first-token contribution", "share", "all", "LH"),
    ("cos_gap", "cosine gap", "cosine", "all", "LH"),
    ("hidden_ratio", "|h_{k}| / |h|", "ratio", "all", "B"),
    ("key_ratio", "|k_{k}| / |k|", "ratio", "all", "LG"),
    ("value_ratio", "|v_{k}| / |v|", "ratio", "all", "LG"),
    ("loss_mean", "loss", "nat", "all", ""),
    ("image_share", "attention on image tokens", "share", "all", "LH"),
    ("text_share", "attention on text tokens", "share", "all", "LH"),
    ("special_share", "attention on special tokens", "share", "all", "LH"),
)
UNITS = {name: unit for name, _, unit, _, _ in SUMMARY}

# Control characters of terminals, and characters that end a line or change the direction of text.
_CONTROL_CHARACTERS = "\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"


def escape_controls(text: str, lines: bool = False) -> str:
    """Returns the text with its control characters as escapes; `lines` keeps tabs and line feeds."""
    pattern = f"[{_CONTROL_CHARACTERS}]" if lines else f"[{_CONTROL_CHARACTERS}\t\n]"
    return re.sub(pattern, lambda match: f"\\u{ord(match[0]):04x}", text)


class Table(list[dict[str, Any]]):
    """Rows that map a column to its value. Prints as text and, in a notebook, as HTML."""

    title = ""

    def _cells(self) -> list[list[str]]:
        columns = list(self[0]) if self else []
        return [columns] + [[_cell_text(row[name]) for name in columns] for row in self]

    def to_csv(self) -> str:
        """Returns the table as CSV. Rows end with a line feed; undefined values are empty, and what a spreadsheet would
        read as a formula has a quote before it, as in the CSV of the command line and the page."""
        import csv
        from io import StringIO

        out = StringIO()
        writer = csv.DictWriter(out, list(self[0]) if self else ["metric"], lineterminator="\n")
        writer.writeheader()
        for row in self.to_json_rows():
            writer.writerow({name: _cell(x) for name, x in row.items()})
        return out.getvalue()

    def to_json_rows(self) -> list[dict[str, Any]]:
        """Returns the rows with None for NaN and infinity, which JSON does not have."""
        return [
            {name: None if isinstance(x, float) and not np.isfinite(x) else x for name, x in row.items()}
            for row in self
        ]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        return "\n".join(([escape_controls(self.title)] if self.title else []) + lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        header, *rows = self._cells()
        lines = [
            "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
            for tag, row in [("th", header), *(("td", row) for row in rows)]
        ]
        return f"<table><caption>{escape(self.title)}</caption>{''.join(lines)}</table>"


def _cell(value: Any) -> Any:
    return FORMULA_STARTS.sub("'", value) if isinstance(value, str) else "" if value is None else value


def _cell_text(value: Any) -> str:
    if isinstance(value, float):
        return "–" if np.isnan(value) else f"{value:.4g}"
    return str(value)
