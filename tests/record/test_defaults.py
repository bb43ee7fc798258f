"""Checks the default parameters, on which the README, the notebook and the commands rely."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sinkscope
from sinkscope import metrics, studies
from sinkscope.attention import Watch
from sinkscope.recording import Recording
from sinkscope.settings import Settings

RECORD_DEFAULTS = {
    "tokens": 64,
    "eps": (0.1, 0.2, 0.3),
    "keep": 2,
    "maps": "auto",
    "first": 0,
    "mask": None,
    "tolerance": 1e-3,
}
FIRST_PROMPT = {"prompt": 0}
# A study has many models, so it keeps the maps of one prompt for each model, and reads several texts at a time.
STUDY_DEFAULTS = {"batch": 8, "block": None, "tokens": 64, "eps": (0.1, 0.2, 0.3), "keep": 1}

DEFAULTS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (sinkscope.record, {**RECORD_DEFAULTS, "batch": 1, "part": None, "progress": True}),
    (Settings, RECORD_DEFAULTS),
    (Settings.from_arguments, {"maps": "auto", "first": 0, "mask": None, "tolerance": 1e-3}),
    (sinkscope.record_maps, {"eps": (0.1, 0.2, 0.3), "keep": 2, "first": 0, "mask": None}),
    (sinkscope.study, {**STUDY_DEFAULTS, "part": None, "num_gpus": 0, "concurrency": 1, "ray": False}),
    (studies.plan, STUDY_DEFAULTS),
    (sinkscope.show, FIRST_PROMPT),
    (sinkscope.picture, {**FIRST_PROMPT, "layer": None, "head": None, "format": "png"}),
    *((method, FIRST_PROMPT) for method in (Recording.tokens, Recording.attention, Recording.map)),
    *(
        (metric, {"first": 0})
        for metric in (metrics.cos_gap, metrics.first_to_others, metrics.norm_ratio, metrics.head_gate)
    ),
    (Watch, {"calls": 0, "calls_before": 0}),
]


@pytest.mark.parametrize(("function", "expected"), DEFAULTS, ids=lambda function: getattr(function, "__qualname__", ""))
def test_an_omitted_parameter_has_the_documented_default(
    function: Callable[..., Any], expected: dict[str, Any]
) -> None:
    parameters = inspect.signature(function).parameters
    result = {name: parameters[name].default for name in expected}
    assert result == expected
    # Types are compared as well, since False == 0.
    assert {name: type(value) for name, value in result.items()} == {
        name: type(value) for name, value in expected.items()
    }


def test_the_readme_shows_the_defaults() -> None:
    readme = Path(sinkscope.__file__).parents[2] / "README.md"
    assert "tokens=64, eps=[0.1, 0.2, 0.3], keep=2)" in readme.read_text()
