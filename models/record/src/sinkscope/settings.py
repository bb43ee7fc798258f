"""Checks the settings of a recording."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

FIELDS = ("hidden_norm", "key_norm", "value_norm", "loss")
MORE_FIELDS = ("q", "k", "v", "hidden", "picture")


@dataclass(frozen=True)
class Settings:
    """The settings of a recording, as the documentation of `record` explains them."""

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
            raise ValueError(
                f"fields: expected some of {', '.join(FIELDS + MORE_FIELDS)}, found {', '.join(sorted(unknown))}"
            )
        if self.maps not in ("auto", "full", "pooled", "none"):
            raise ValueError(f"maps: expected auto, full, pooled or none, found {self.maps!r}")
        if self.mask not in (None, "causal", "prefix", "bidirectional"):
            raise ValueError(f"mask: expected causal, prefix or bidirectional, found {self.mask!r}")
        for name, minimum in (("tokens", 2), ("keep", 0), ("first", 0)):
            value = getattr(self, name)
            if value is None and name == "tokens":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
                raise ValueError(f"{name}: expected {minimum} or more, found {value!r}")
        if self.tokens is not None and self.first >= self.tokens:
            raise ValueError(
                f"first: expected a position below {self.tokens}, the number of tokens, found {self.first}"
            )
        if not self.tolerance > 0:
            raise ValueError(f"tolerance: expected a number above 0, found {self.tolerance!r}")

    @classmethod
    def from_arguments(
        cls,
        tokens: Any,
        eps: Any,
        keep: Any,
        fields: Any,
        maps: Any = "auto",
        first: Any = 0,
        mask: Any = None,
        tolerance: Any = 1e-3,
    ) -> "Settings":
        """Checks a caller's arguments. Raises ValueError for values that are not allowed."""
        if isinstance(fields, str):
            raise ValueError(f"fields: expected a list of names, found {fields!r} alone: fields=[{fields!r}]")
        return cls(tokens, check_eps(eps), keep, tuple(fields), maps, first, mask, tolerance)


def check_eps(eps: Any) -> tuple[float, ...]:
    """Returns the thresholds as floats. Raises ValueError unless all are numbers from 0 to 1."""
    if isinstance(eps, str | bytes) or not isinstance(eps, Iterable):
        raise ValueError(f"eps: expected a list of thresholds, found {eps!r} alone: eps=[{eps}]")
    try:
        thresholds = tuple(float(e) for e in eps)
    except (TypeError, ValueError):
        raise ValueError(f"eps: expected a list of numbers, found {eps!r}") from None
    if not thresholds:
        raise ValueError("eps: expected one number or more, found none")
    if not all(math.isfinite(e) and 0 <= e <= 1 for e in thresholds):
        raise ValueError(f"eps: expected numbers from 0 to 1, found {', '.join(f'{e:g}' for e in thresholds)}")
    return thresholds
