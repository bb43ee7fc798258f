"""Checks that the comparison of two trainings fails where their losses differ."""

import math

import pytest

from models.reference.follow_training import compare


def test_losses_within_the_tolerance_are_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare([2.0, 1.5], [2.0, 1.5004], 1e-3) is None
    assert "largest difference: 4.0e-04" in capsys.readouterr().out


@pytest.mark.parametrize(("core", "steps"), [([2.0, 1.6], [1]), ([math.nan, 1.5], [0]), ([2.0, math.inf], [1])])
def test_other_losses_are_refused_with_their_steps(core: list[float], steps: list[int]) -> None:
    assert str(steps) in str(compare(core, [2.0, 1.5], 1e-3))


def test_a_training_without_steps_or_with_missing_steps_is_refused() -> None:
    assert "no step" in str(compare([], [], 1e-3))
    with pytest.raises(ValueError, match="argument 2"):
        compare([2.0], [2.0, 1.5], 1e-3)
