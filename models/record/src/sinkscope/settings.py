"""What is measured and kept of each prompt."""

from dataclasses import dataclass

FIELDS = ("hidden_norm", "key_norm", "value_norm", "loss")
MORE_FIELDS = ("q", "k", "v", "hidden")


@dataclass(frozen=True)
class Settings:
    """What is measured and kept. `record` explains each."""

    tokens: int | None = 64
    eps: tuple[float, ...] = (0.1, 0.2, 0.3)
    keep: int = 2
    fields: tuple[str, ...] = FIELDS
    maps: str = "auto"
    first: int = 0
    mask: str | None = None
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        unknown = set(self.fields) - {*FIELDS, *MORE_FIELDS}
        if unknown:
            raise ValueError(f"fields: expected some of {', '.join(FIELDS + MORE_FIELDS)}, "
                             f"found {', '.join(sorted(unknown))}")
        if self.maps not in ("auto", "full", "pooled", "none"):
            raise ValueError(f"maps: expected auto, full, pooled or none, found {self.maps!r}")
        if self.mask not in (None, "causal", "prefix", "bidirectional"):
            raise ValueError(f"mask: expected causal, prefix or bidirectional, found {self.mask!r}")
        if self.tokens is not None and self.tokens < 2:
            raise ValueError(f"tokens: expected 2 or more, found {self.tokens}")
        if not self.eps:
            raise ValueError("eps: expected one number or more, found none")
