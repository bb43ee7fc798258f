"""The scripts that write tests/golden, one for each origin of the numbers."""
