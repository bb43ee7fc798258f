"""Shows a recording in a notebook: interactively if the front end runs widgets, otherwise as a picture.

The package contains the page's element and engine, so that the widget (anywidget) works offline in JupyterLab,
VS Code, Colab and marimo. The selection in the figure is synchronized with traits of the widget. The notebook file
keeps a PNG and a text, which GitHub, nbviewer and nbconvert show.
"""

from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from io import BytesIO
from os import PathLike
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from . import __version__
from .recording import Array, Recording, recording_bytes

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise ImportError(
        "sinkscope.show: expected the packages of the extra, found none: pip install sinkscope[notebook]"
    ) from error

HEIGHT = 560


class Widget(anywidget.AnyWidget):
    """A live figure of a recording in a notebook.

    `layer`, `head`, `query` and `key` are the selection, which both Python and the figure can set. `layer` is an index
    into `recording.layers`, which has the model's own numbers. `selection` is the last selection event of the element.
    `state` is "loading", then "drawn", or the reason why the figure is not drawn."""

    _esm = Path(str(files("sinkscope") / "widget.js"))
    view = traitlets.Unicode("heads,attention").tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    query = traitlets.Int(0).tag(sync=True)
    key = traitlets.Int(0).tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)
    height = traitlets.Int(HEIGHT).tag(sync=True)
    title = traitlets.Unicode("").tag(sync=True)
    state = traitlets.Unicode("loading").tag(sync=True)

    def __init__(self, recording: Recording, prompt: int, **traits: Any) -> None:
        super().__init__(title=recording.title, **traits)
        self.recording, self.prompt = recording, prompt
        self.on_msg(self._answer)

    def _answer(self, _: Any, message: dict[str, Any], __: Any) -> None:
        """Sends a view what it requests: the element with the recording, or a still picture. Bytes are sent only on
        request, so that the notebook does not store them."""
        element = files("sinkscope") / "static" / "element.json"
        if message.get("request") == "element" and element.is_file():
            self.send({"kind": "element"}, [element.read_bytes(), recording_bytes(self.recording)])
        elif message.get("request") in ("element", "still"):
            reason = message.get("why", "A still picture: the page was not built when this package was.")
            self.send({"kind": "still", "why": str(reason)}, [self.png()])

    def png(self) -> bytes:
        return picture(self.recording, self.prompt, self.recording.layers[self.layer], self.head)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        still_formats = {"image/png": b64encode(self.png()).decode(), "text/plain": str(self.recording.table())}
        return data | still_formats, metadata


# Widths in inches of a two-column paper, as of IEEE, ACM and ACL.
PAPER_WIDTHS = {"column": 3.3, "text": 6.9}
PAPER_SETTINGS = {
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.linewidth": 0.5,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
}
# Keeps letters as text in a vector file.
VECTOR_SETTINGS = {"svg.fonttype": "none", "pdf.fonttype": 42}


def picture(
    recording: Recording,
    prompt: int = 0,
    layer: int | None = None,
    head: int | None = None,
    format: str = "png",
    width: str | None = None,
    part: str | None = None,
) -> bytes:
    """Draws a picture (png, svg or pdf) of alpha of the first token in all heads and of the map of one head, with the
    recording's caption below.

    layer, head: the head to draw, its layer by the model's own number. If either is None, the head with the largest
        alpha of the first token is chosen among those that match the other.
    width: "column" (3.3 inches) or "text" (6.9), for a paper: letters of 7 points, embedded in a pdf, and no caption,
        which the paper sets itself (`recording.caption()`).
    part: "heads" or "map", to draw only one of both.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    for name, value, choices in (("width", width, tuple(PAPER_WIDTHS)), ("part", part, ("heads", "map"))):
        if value is not None and value not in choices:
            raise ValueError(f"{name}: expected {' or '.join(choices)}, found {value!r}")
    parts = [part] if part else ["heads", "map"]
    inches = 9 if width is None else PAPER_WIDTHS[width]
    columns = 1 if width == "column" else len(parts)
    rows = len(parts) // columns
    size = inches, inches * (0.49 if columns == 2 else 0.8 * rows)
    out = BytesIO()
    with rc_context(VECTOR_SETTINGS | (PAPER_SETTINGS if width else {})):
        figure = Figure(figsize=size, dpi=300 if width else 100, layout="constrained")
        for name, axes in zip(parts, figure.subplots(rows, columns, squeeze=False).flat, strict=True):
            if name == "heads":
                _draw_heads(recording, prompt, axes)
            else:
                _draw_map(recording, prompt, layer, head, axes)
        if width is None:
            # Formulas are disabled: a $ in a model's name does not begin one.
            footer = f"{recording.caption()} Drawn by Sinkscope {__version__}."
            figure.supxlabel(fill(footer, 130), fontsize=7, parse_math=False)
        figure.savefig(out, format=format)
    return out.getvalue()


def draw_series(series: Any, metric: str | None, format: str, width: str) -> bytes:
    """Draws a metric of the table of a `Series` against the step, as `Series.picture` describes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if width not in PAPER_WIDTHS:
        raise ValueError(f"width: expected {' or '.join(PAPER_WIDTHS)}, found {width!r}")
    table = series.table()
    labels = list(dict.fromkeys(row["metric"] for row in table))
    chosen = metric or next((label for label in reversed(labels) if label.startswith("Sink_")), labels[0])
    if chosen not in labels:
        raise ValueError(f"metric: expected one of {', '.join(labels)}, found {metric!r}")
    rows = [row for row in table if row["metric"] == chosen]
    low, mean, high = ([row[key] for row in rows] for key in ("low", "mean", "high"))
    out = BytesIO()
    with rc_context(VECTOR_SETTINGS | PAPER_SETTINGS):
        figure = Figure(figsize=(PAPER_WIDTHS[width], 2.2), dpi=300, layout="constrained")
        axes = figure.subplots()
        axes.plot(series.steps, mean, marker="o", markersize=2, linewidth=1)
        axes.fill_between(series.steps, low, high, alpha=0.2, linewidth=0)
        # The axis is linear below the first step, since 0 has no logarithm.
        first_step = next((step for step in series.steps if step), 1)
        axes.set_xscale("symlog", linthresh=first_step)
        axes.set(xlabel="step", ylabel=f"{chosen} ({rows[0]['unit']})")
        axes.set_ylim(bottom=min(0, *mean))
        figure.savefig(out, format=format)
    return out.getvalue()


def _draw_heads(recording: Recording, prompt: int, axes: Any) -> None:
    first, alpha = recording.first, _first_token_alpha(recording, prompt)
    if alpha is None:
        axes.set_axis_off()
        axes.set_title("alpha: not recorded")
        return
    image = axes.imshow(alpha, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set(xlabel="head", ylabel="layer", title=f"alpha_{first + 1}: attention to the first {_key_unit(recording)}")
    rows, heads = (range(0, n, -(-n // 12)) for n in alpha.shape)
    axes.set_yticks(list(rows), [str(recording.layers[row]) for row in rows])
    axes.set_xticks(list(heads))
    axes.figure.colorbar(image, ax=axes)


def _draw_map(recording: Recording, prompt: int, layer: int | None, head: int | None, axes: Any) -> None:
    if f"{prompt}.att" not in recording and f"{prompt}.att_pooled" not in recording:
        axes.set_axis_off()
        axes.set_title("map: not kept")
        return
    row, head = _select_head(recording, _first_token_alpha(recording, prompt), layer, head)
    is_cross = recording.cross is not None
    aspect = "auto" if is_cross else "equal"
    axes.imshow(recording.attention(prompt)[row, head], cmap="Blues", vmin=0, vmax=1, aspect=aspect)
    xlabel, ylabel = (f"{_key_unit(recording)} (key)", "decoder token (query)") if is_cross else ("key", "query")
    axes.locator_params(integer=True)
    axes.set(xlabel=xlabel, ylabel=ylabel, title=f"attention of L{recording.layers[row]}H{head}")


def _key_unit(recording: Recording) -> str:
    return f"encoder {recording.cross['keys']}" if recording.cross else "token"


def _first_token_alpha(recording: Recording, prompt: int) -> Array | None:
    """Returns alpha of the first token in each head, [L, H]: from the means, from the kept prompt, or from the prompt's
    maps; None if the recording has none of these."""
    first = recording.first
    for name in ("mean.alpha", f"{prompt}.alpha"):
        if name in recording:
            return recording[name][..., first]
    if f"{prompt}.att" not in recording:
        return None
    att = recording.attention(prompt)
    share = np.abs(att) / np.maximum(np.abs(att).sum(-1, keepdims=True), 1e-8)
    is_bidirectional = (recording.model.get("mask") or {}).get("kind") == "bidirectional"
    return share[..., first].sum(-1) / (att.shape[-2] - (0 if is_bidirectional else first))


def _select_head(recording: Recording, alpha: Array | None, layer: int | None, head: int | None) -> tuple[int, int]:
    """Returns the layer's index in the recording and the head that `layer` and `head` of `picture` choose."""
    layers, H = list(recording.layers), recording.model["H"]
    if layer is not None and layer not in layers:
        raise ValueError(f"layer: expected a layer with attention ({', '.join(map(str, layers))}), found {layer}")
    if head is not None and not 0 <= head < H:
        raise ValueError(f"head: expected a number below {H}, found {head}")
    rows = slice(None) if layer is None else [layers.index(layer)]
    heads = slice(None) if head is None else [head]
    candidates = np.full((len(layers), H), -2.0)
    candidates[rows, heads] = -1.0 if alpha is None else np.nan_to_num(alpha, nan=-1.0)[rows, heads]
    row, column = np.unravel_index(np.argmax(candidates), candidates.shape)
    return int(row), int(column)


def show(
    x: Any,
    tokens: Sequence[str] | None = None,
    *,
    view: str = "heads,attention",
    prompt: int = 0,
    layer: int | None = None,
    head: int | None = None,
    height: int = HEIGHT,
    text: str | None = None,
    operation: str | None = None,
) -> Widget:
    """Returns a widget that shows `x`.

    x: a `Recording`; a file of one; maps [L, H, T, T] with `tokens`, the strings of the T tokens; or a
        folder or GGUF file of a model, which is recorded on `text` first.
    view: names of views of the page (heads, attention, scores, norms, mass ...), separated by commas.
    layer, head: the head that is selected first, as in `picture`.
    operation: the attention operation that made the weights of maps ("sigmoid", "sink_logit" ...; by default
        "softmax"). Rows of operations other than softmax need not sum to 1.
    """
    recording = _to_recording(x, tokens, text, operation)
    kept_count = recording.conditions["prompts"]["kept"]
    if kept_count and not 0 <= prompt < kept_count:
        raise ValueError(f"prompt: expected one of {kept_count} kept prompts, found {prompt}")
    row, head = _select_head(recording, _first_token_alpha(recording, prompt), layer, head)
    return Widget(recording, prompt, view=view, layer=row, head=head, height=height)


def _to_recording(x: Any, tokens: Sequence[str] | None, text: str | None, operation: str | None) -> Recording:
    if operation is not None and isinstance(x, Recording | str | PathLike):
        raise ValueError(
            f"operation: expected none beside a recording or a model, which has its own, found {operation!r}"
        )
    if isinstance(x, Recording):
        return x
    if isinstance(x, str | PathLike):
        path = Path(x)
        if path.suffix == ".safetensors":
            return Recording.open(path)
        from .loading import load
        from .recordings import record

        if text is None:
            raise ValueError("show: expected a text for the model to read, found none: show(x, text=...)")
        loaded = load(path)
        return record(
            loaded.model,
            loaded.tokenizer,
            [text],
            tokens=None,
            model_id=loaded.id,
            file_sha256=loaded.sha256,
            progress=False,
        )
    if tokens is None:
        raise ValueError("show: expected tokens beside maps, found none: show(maps, tokens)")
    from .maps import record_maps

    return record_maps([x], [tokens], operation=operation or "softmax")
