"""Limits that a budget puts on the counts that a study asks for."""

from __future__ import annotations

from farout.study.spec import Budget

IMAGES: dict[Budget, int | None] = {"quick": 2_000, "standard": 10_000, "full": None}
"""Largest number of images of a test set."""


def check_counts(**asked: int | None) -> None:
    """Raise if a count is neither None nor a positive integer."""
    for what, number in asked.items():
        if number is not None and (type(number) is not int or number < 1):
            raise ValueError(f"{what} must be a positive integer, got {number!r}")


def check_flags(**given: object) -> None:
    """Raise if a value is neither true nor false."""
    for what, value in given.items():
        if not isinstance(value, bool):
            raise ValueError(f"{what} must be true or false, got {value!r}")


def least(asked: int | None, allowed: int | None) -> int | None:
    """Return the smaller of two counts, the one asked for and the one that the budget allows; None is no limit."""
    return asked if allowed is None else allowed if asked is None else min(asked, allowed)


def cut(asked: int | None, allowed: int | None, what: str) -> list[str]:
    """Return a line that says how many the budget leaves out of those asked for; an empty list if none."""
    if asked is None or allowed is None or asked <= allowed:
        return []
    return [f"{asked - allowed:,} of {asked:,} {what}"]
