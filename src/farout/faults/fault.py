"""Outcome of one kind of fault, and the interface of those who cause it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from farout.faults.bench import Bench


@dataclass
class Verdict:
    """Verdict on a kind of fault: its number, the places that it hit, and the problems afterwards."""

    fault: str
    """Name of the fault, in words."""
    count: int = 0
    """Times that it was caused."""
    hit: Counter[str] = field(default_factory=Counter)
    """Times by what it hit: the phase of the run, or the kind of file."""
    problems: list[str] = field(default_factory=list)
    """Results lost or wrong, and damage not named; empty if the run took the fault as promised."""
    means: str = ""
    """Method of causing it, where there are several."""

    def caused(self, what: str) -> None:
        """Count one fault by what it hit."""
        self.count += 1
        self.hit[what] += 1


class Cause(Protocol):
    """Function that causes a fault `count` times; it tells how many more are done."""

    def __call__(self, bench: Bench, count: int, rng: random.Random, done: Callable[[int], None]) -> Verdict: ...


class Fault(NamedTuple):
    """Kind of fault with the function that causes it, and how often `farout check --faults` does."""

    cause: Cause
    per_kills: float
    """Times for each kill that the user asks for."""
