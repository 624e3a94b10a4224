"""Report as data: the summaries of the protocols, and facts about the run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from farout.report.content.figures import Shown
from farout.report.content.stresses import Overview, Stress, Subject, overview
from farout.report.content.table import Table


@dataclass(frozen=True)
class Summary:
    """Tables and figures of one protocol."""

    title: str
    tables: Sequence[Table] = field(default_factory=list)
    figures: Sequence[Shown] = field(default_factory=list)
    stresses: Sequence[Stress] = ()
    """AUROC of the detectors in every condition that the protocol tests."""
    sentences: Sequence[str] = ()
    """Findings in words, shown first."""
    costs: Mapping[Subject, float] = field(default_factory=dict)
    """Seconds per 10,000 images by subject, if the protocol measures them."""

    @property
    def short_title(self) -> str:
        """Title up to the colon, for navigation."""
        return self.title.partition(":")[0]


@dataclass(frozen=True)
class Failure:
    """Result that is missing because of an error."""

    title: str
    traceback: str
    reason: str
    """One line that names the detector and the error."""


@dataclass(frozen=True)
class Document:
    """Content of a run's report."""

    name: str
    budget: str
    summaries: Mapping[str, Summary]
    """Summaries by protocol."""
    total: int
    """Number of results of the whole run."""
    missing: int = 0
    failed: int = 0
    """Number of missing results that failed."""
    failures: Sequence[Failure] = ()
    cuts: Sequence[str] = ()
    """Parts that the budget left out, as lines of text."""
    notes: Sequence[str] = ()
    fitted: Sequence[Table] = ()
    """Table of the number of images used for training and fitting; empty if there is none."""
    extra_data: Collection[str] = ()
    """Names of the detectors that learned from outliers too."""
    fit_sizes: Sequence[str] = ()
    """The same numbers as lines of text."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about the run, such as the version of torch and the time that it took, by name."""
    spec: object = None
    """Study, as read from its file."""
    agreement: Summary | None = None
    """Agreement of the stresses on the order of the detectors."""
    provenance: Sequence[Table] = ()
    """Tables on the computation: sessions, and the time that results took."""
    results: Table | None = None
    """Table of every stored result with its identity and digest; too long for the page."""

    @property
    def tables(self) -> list[Table]:
        """Tables of the protocols and, if they have any, the overview and the table of fit sizes."""
        found = [table for summary in self.sections.values() for table in summary.tables]
        first = [self.overview.table] if self.overview.conditions else []
        return [*first, *found, *self.fitted, *self.provenance] if found else []

    @property
    def sections(self) -> dict[str, Summary]:
        """Summaries in the order of the page: those of the protocols, then the agreement between them."""
        return {**self.summaries, **({"agreement": self.agreement} if self.agreement else {})}

    @cached_property
    def overview(self) -> Overview:
        """All detectors under all stresses."""
        stresses = {name: summary.stresses for name, summary in self.summaries.items()}
        costs = {subject: cost for one in self.summaries.values() for subject, cost in one.costs.items()}
        titles = {name: summary.short_title for name, summary in self.summaries.items()}
        return overview(stresses, titles, costs, self.extra_data)
