"""A report as data: what protocols show, and what is to be known of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from farout.report.content.figures import Shown
from farout.report.content.table import Table


@dataclass(frozen=True)
class Summary:
    """All that one protocol shows."""

    title: str
    tables: Sequence[Table] = field(default_factory=list)
    figures: Sequence[Shown] = field(default_factory=list)


@dataclass(frozen=True)
class Failure:
    """A result that is missing because of an error."""

    title: str
    traceback: str
    reason: str
    """One line that names the detector and the error."""


@dataclass(frozen=True)
class Document:
    """All that a report says of a run."""

    name: str
    budget: str
    summaries: Mapping[str, Summary]
    """By protocol."""
    total: int
    """Results that the run is made of."""
    missing: int = 0
    failed: int = 0
    """Of the missing ones, those that were tried."""
    failures: Sequence[Failure] = ()
    cuts: Sequence[str] = ()
    """What the budget left out."""
    notes: Sequence[str] = ()
    fitted: Sequence[Table] = ()
    """How many images networks were trained and detectors fitted on: one table, or none."""
    fit_sizes: Sequence[str] = ()
    """The same as lines of text."""
    spec: object = None
    """The study, as read from its file."""

    @property
    def tables(self) -> list[Table]:
        """All tables: those of the protocols and, where these have any, what was fitted on what."""
        found = [table for summary in self.summaries.values() for table in summary.tables]
        return [*found, *self.fitted] if found else []
