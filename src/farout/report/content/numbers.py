"""Numbers as text, the same in tables, verdicts and figures."""

from __future__ import annotations


def number(value: float, powers: bool = False) -> str:
    """Return a number with three digits; with `powers`, a number below .001 as a power of ten."""
    if value != value:
        return "–"
    return f"{value:.0e}" if powers and 0 < abs(value) < 1e-3 else f"{value:.3f}"


def with_interval(value: float, low: float, high: float) -> str:
    """Return a number with its interval in brackets, if it has one."""
    return number(value) + ("" if low != low else f" [{number(low)}, {number(high)}]")


def ordinal(rank: int) -> str:
    """Return "1st", "2nd", "11th" …"""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th") if rank % 100 not in (11, 12, 13) else "th"
    return f"{rank}{ending}"


def listed(parts: list[str]) -> str:
    """Return "a", "a and b", or "a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
