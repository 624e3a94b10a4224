"""Protocol contract: one published evaluation procedure, as a plan and a summary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from farout import aliases
from farout.component import Named
from farout.registry import Registry
from farout.report.content import Summary
from farout.study.cells.cell import Entry
from farout.study.results import Results
from farout.study.study import Study


class Protocol(Named, ABC):
    """Evaluation procedure for detectors: the cells it needs, and the tables and figures of their results."""

    by_name: ClassVar[bool] = False
    """True if `farout.stress` runs it by name only: it trains models of its own, or measures no scores."""

    def unsuited(self, study: Study) -> str | None:
        """Return the reason why this protocol cannot be run on the study's images; None if it can."""
        if all(trial.outliers for trial in study.trials):
            return None
        return "it needs outliers: the study names none (outliers:), and these inliers bring none of their own"

    def cuts(self, study: Study) -> list[str]:
        """Return what the budget leaves out of what the study asks this protocol for, as lines of text."""
        return []

    @abstractmethod
    def plan(self, study: Study) -> list[Entry]:
        """Return the cells that this protocol needs."""

    @classmethod
    @abstractmethod
    def summarize(cls, results: Results) -> Summary:
        """Return tables and figures of the results stored so far.

        They need stored results alone, so that a report needs no code of the user's.
        """


PROTOCOLS: Registry[Protocol] = Registry("protocol", Protocol, aliases.PROTOCOLS, functions=False)
