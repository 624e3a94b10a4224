"""What a protocol is: one paper, as a plan and a summary."""

from __future__ import annotations

from abc import ABC, abstractmethod

from farout import aliases
from farout.component import Named
from farout.registry import Registry
from farout.report.content import Summary
from farout.study.cells.cell import Entry
from farout.study.results import Results
from farout.study.study import Study


class Protocol(Named, ABC):
    """One way of putting detectors to the test."""

    def unsuited(self, study: Study) -> str | None:
        """Why this protocol cannot be had with the study's images; None where it can."""
        if all(trial.outliers for trial in study.trials):
            return None
        return "it needs outliers: the study names none (outliers:), and these inliers bring none of their own"

    def cuts(self, study: Study) -> list[str]:
        """What the budget leaves out of what the study asks this protocol for, for people to read."""
        return []

    @abstractmethod
    def plan(self, study: Study) -> list[Entry]:
        """The cells this protocol needs."""

    @classmethod
    @abstractmethod
    def summarize(cls, results: Results) -> Summary:
        """Tables and figures from stored results alone, with whatever is there so far: a report is written without
        the study's parts, which may be the user's own."""


PROTOCOLS: Registry[Protocol] = Registry("protocol", Protocol, aliases.PROTOCOLS)
