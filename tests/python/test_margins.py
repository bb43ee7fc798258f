"""Holds the table of tolerances (tests/margins.md) complete."""

from tests.margins import list_places, read_table


def test_every_comparison_with_a_tolerance_has_a_row() -> None:
    places, possible, _ = list_places()
    rows = set(read_table()[1])
    assert not set().union(*places.values()) - rows, "python3 -m tests.margins FILE measures them"
    assert not rows - possible, "no such comparison"


def test_every_difference_is_below_a_third_of_its_tolerance_or_the_same_on_all_machines() -> None:
    following = list_places()[2]
    for place, (_, _, share, seeds) in read_table()[1].items():
        is_derived = seeds in ("same bits", "follows")
        assert share == "-" or float(share) <= (1 if is_derived else 1 / 3), place
        assert share == "-" or (seeds == "follows") == (place in following), place
