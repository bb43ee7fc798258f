"""Records what the attention of a PyTorch model did, in one small file that Sinkscope opens.

import sinkscope
recording = sinkscope.record(model, tokenizer, texts, tokens=64)
recording.table()
recording.save("model.safetensors")
sinkscope.show(recording)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0"
__all__ = [
    "Monitor",
    "Recording",
    "Series",
    "compare",
    "load",
    "metrics",
    "observe",
    "open_recording",
    "picture",
    "record",
    "record_maps",
    "series",
    "show",
    "study",
    "watching",
]

if TYPE_CHECKING:
    from . import metrics
    from .attention import observe
    from .checkpoints import Series, series
    from .loading import load
    from .maps import record_maps
    from .monitor import Monitor
    from .recording import Recording, compare, open_recording
    from .recordings import record
    from .studies import study
    from .watch import watching
    from .widget import picture, show

# The module of each published name. No module has the name of a function, since its import would hide the function.
_MODULES = {
    "observe": "attention",
    "load": "loading",
    "record": "recordings",
    "Recording": "recording",
    "compare": "recording",
    "open_recording": "recording",
    "study": "studies",
    "show": "widget",
    "picture": "widget",
    "record_maps": "maps",
    "watching": "watch",
    "Monitor": "monitor",
    "Series": "checkpoints",
    "series": "checkpoints",
}


def __getattr__(name: str) -> Any:
    """Imports a published name at its first use: reading a recording needs no torch, metrics no transformers."""
    if name != "metrics" and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f".{_MODULES.get(name, name)}", __name__)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "tqdm", "transformers"):
            raise
        raise ImportError(
            f"sinkscope.{name}: expected the packages of the extra, found no {error.name}: "
            "pip install sinkscope[record]"
        ) from error
    return module if name == "metrics" else getattr(module, name)
