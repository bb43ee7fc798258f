"""`show`: a recording in a notebook, live where the front end runs widgets and as a picture elsewhere.

The widget (anywidget) carries the page's element and engine inside the package, so it works offline in
JupyterLab, VS Code, Colab and marimo. What is selected in the figure comes back as traits. The file of
the notebook keeps a PNG and a text, which GitHub, nbviewer and nbconvert show.
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
from .recording import Array, Recording, bytes_of

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise ImportError("sinkscope.show: expected the packages of the extra, found none: "
                      "pip install sinkscope[notebook]") from error

HEIGHT = 560


class Widget(anywidget.AnyWidget):
    """`layer`, `head`, `query` and `key` are what is selected, from either side; `layer` is a row of
    `recording.layers`, which has the model's numbers. `selection` is the element's last event; `state` is
    "drawn" once the figure is drawn, or says why it does not."""

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
        """A view requests bytes, which are not stored in the notebook."""
        element = files("sinkscope") / "static" / "element.json"
        if message.get("request") == "element" and element.is_file():
            self.send({"kind": "element"}, [element.read_bytes(), bytes_of(self.recording)])
        elif message.get("request") in ("element", "still"):
            why = message.get("why", "A still picture: the page was not built when this package was.")
            self.send({"kind": "still", "why": str(why)}, [self.png()])

    def png(self) -> bytes:
        return picture(self.recording, self.prompt, self.recording.layers[self.layer], self.head)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        found = super()._repr_mimebundle_(**options)
        data, metadata = found if isinstance(found, tuple) else (found or {}, {})
        still = {"image/png": b64encode(self.png()).decode(), "text/plain": str(self.recording.table())}
        return data | still, metadata


def picture(recording: Recording, prompt: int = 0, layer: int | None = None,
            head: int | None = None, format: str = "png") -> bytes:
    """A picture (png, svg or pdf): alpha of the first token in all heads, the map of one head, and below
    them what the numbers depend on.

    layer, head: the head, its layer by the model's own number; what is None is that of the head with the
        largest alpha of the first token.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    at, alpha = recording.first, _alpha(recording, prompt)
    has_map = f"{prompt}.att" in recording or f"{prompt}.att_pooled" in recording
    figure = Figure(figsize=(9, 4.4), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2)
    # A model's name may hold a $, which is no formula.
    stamp = f"{recording.caption()} Drawn by Sinkscope {__version__}."
    figure.supxlabel(fill(stamp, 130), fontsize=7, parse_math=False)
    if alpha is not None:
        shown = left.imshow(alpha, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        left.set(xlabel="head", ylabel="layer", title=f"alpha_{at + 1}: attention to the first token")
        rows = range(0, len(alpha), -(-len(alpha) // 12))  # at most 12 names
        left.set_yticks(list(rows), [str(recording.layers[row]) for row in rows])
        figure.colorbar(shown, ax=left)
    else:
        left.set_axis_off()
        left.set_title("alpha: not recorded")
    if has_map:
        row, head = _selected(recording, alpha, layer, head)
        right.imshow(recording.attention(prompt)[row, head], cmap="Blues", vmin=0, vmax=1)
        name = f"L{recording.layers[row]}H{head}"
        right.set(xlabel="key", ylabel="query", title=f"attention of {name}")
    else:
        right.set_axis_off()
        right.set_title("map: not kept")
    out = BytesIO()
    # Keeps letters as text in a vector file.
    with rc_context({"svg.fonttype": "none", "pdf.fonttype": 42}):
        figure.savefig(out, format=format)
    return out.getvalue()


def _alpha(recording: Recording, prompt: int) -> Array | None:
    """Returns alpha of the first token in each head, [L, H], from the means, the prompt, or its maps; else None."""
    at = recording.first
    for name in ("mean.alpha", f"{prompt}.alpha"):
        if name in recording:
            return recording[name][..., at]
    if f"{prompt}.att" not in recording:
        return None
    att = recording.attention(prompt)
    share = np.abs(att) / np.maximum(np.abs(att).sum(-1, keepdims=True), 1e-8)
    bidirectional = (recording.model.get("mask") or {}).get("kind") == "bidirectional"
    return share[..., at].sum(-1) / (att.shape[-1] - (0 if bidirectional else at))


def _selected(recording: Recording, alpha: Array | None, layer: int | None, head: int | None,
              ) -> tuple[int, int]:
    """Returns the row and the head; None selects those of the largest alpha."""
    layers, H = list(recording.layers), recording.model["H"]
    if layer is not None and layer not in layers:
        raise ValueError(f"layer: expected a layer with attention ({', '.join(map(str, layers))}), found {layer}")
    if head is not None and not 0 <= head < H:
        raise ValueError(f"head: expected a number below {H}, found {head}")
    rows = slice(None) if layer is None else [layers.index(layer)]
    heads = slice(None) if head is None else [head]
    meant = np.full((len(layers), H), -2.0)
    meant[rows, heads] = -1.0 if alpha is None else np.nan_to_num(alpha, nan=-1.0)[rows, heads]
    row, column = np.unravel_index(np.argmax(meant), meant.shape)
    return int(row), int(column)


def show(x: Any, tokens: Sequence[str] | None = None, *, view: str = "heads,attention", prompt: int = 0,
         layer: int | None = None, head: int | None = None, height: int = HEIGHT,
         text: str | None = None, operation: str | None = None) -> Widget:
    """A widget of `x`.

    x: a `Recording`; a file of one; maps [L, H, T, T] with `tokens`, the strings of the T tokens; or a
        folder or GGUF file of a model, which is recorded on `text` first.
    view: views of the page by their names (heads, attention, scores, norms, mass ...), commas between.
    layer, head: the head that is selected, as in `picture`.
    operation: what made the weights of maps ("softmax" unless named; "sigmoid", "sink_logit" ...); rows
        of others than softmax need not sum to 1.
    """
    recording = _recording(x, tokens, text, operation)
    kept = recording.conditions["prompts"]["kept"]
    if kept and not 0 <= prompt < kept:
        raise ValueError(f"prompt: expected one of {kept} kept prompts, found {prompt}")
    row, head = _selected(recording, _alpha(recording, prompt), layer, head)
    return Widget(recording, prompt, view=view, layer=row, head=head, height=height)


def _recording(x: Any, tokens: Sequence[str] | None, text: str | None,
               operation: str | None) -> Recording:
    if operation is not None and isinstance(x, Recording | str | PathLike):
        raise ValueError(f"operation: expected none beside a recording or a model, which has its own, "
                         f"found {operation!r}")
    if isinstance(x, Recording):
        return x
    if isinstance(x, str | PathLike):
        path = Path(x)
        if path.suffix == ".safetensors":
            return Recording.open(path)
        from .loading import load
        from .recorder import record

        if text is None:
            raise ValueError("show: expected a text for the model to read, found none: "
                             "show(x, text=...)")
        loaded = load(path)
        return record(loaded.model, loaded.tokenizer, [text], tokens=None, model_id=loaded.id,
                      file_sha256=loaded.sha256, progress=False)
    if tokens is None:
        raise ValueError("show: expected tokens beside maps, found none: show(maps, tokens)")
    from .maps import from_maps

    return from_maps(x, tokens, operation=operation or "softmax")
