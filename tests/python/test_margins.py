"""Holds the table of tolerances (tests/margins.md) complete."""

from tests.margins import list_places, read_table


def test_every_comparison_with_a_tolerance_has_a_row() -> None:
    places, possible = list_places()
    rows = set(read_table()[1])
    assert not set().union(*places.values()) - rows, "python3 -m tests.margins FILE measures them"
    assert not rows - possible, "no such comparison"


def test_every_difference_is_below_a_third_of_its_tolerance_or_the_same_on_all_machines() -> None:
    for place, (_, _, share, seeds) in read_table()[1].items():
        assert share == "-" or float(share) <= 1 / 3 or seeds == "same bits", place
