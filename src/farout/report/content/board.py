"""Leaderboard as data: submissions with the results that were computed from their scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from farout.report.content.stresses import Condition, Mean, Overview, Subject

RECOMPUTED, RERUN = "recomputed from scores", "re-run by us"
"""Badges: the figures were computed from the scores; scores of drawn images were also computed again."""


class Fact(NamedTuple):
    """Line of a submission's provenance."""

    name: str
    value: str


@dataclass(frozen=True)
class Entry:
    """One submission."""

    name: str
    identity: str
    """Hash of all that the submission holds."""
    packed_at: str
    folder: str
    """Name of the folder in the site."""
    badge: str
    inliers: str
    outliers: str
    budget: str
    protocols: Sequence[str]
    training: Mapping[str, str]
    """By label of a network, the images it was trained on; by an empty label, those of detectors without a network."""
    extra: Mapping[str, str]
    """By label of a detector, the outlier sets that it learned from."""
    overview: Overview
    missing: int
    """Number of results that have failed."""
    provenance: Mapping[str, Sequence[Fact]]
    """Facts by section."""
    notes: Sequence[str] = ()


class Worst(NamedTuple):
    """Lowest AUROC of a detector over some stresses."""

    condition: Condition
    mean: Mean


@dataclass(frozen=True)
class Line:
    """One detector of one submission."""

    entry: Entry
    subject: Subject

    @property
    def clean(self) -> Mean | None:
        """AUROC on clean images; None if it was not measured."""
        reference = self.entry.overview.reference
        return reference.means.get(self.subject) if reference else None

    @cached_property
    def stressed(self) -> list[tuple[Condition, Mean]]:
        """The conditions with stress that it was tested in."""
        return [(one, mean) for one, mean in self.entry.overview.of(self.subject) if not one.stress.clean]

    def worst(self, protocol: str = "") -> Worst | None:
        """Return the lowest AUROC over all stresses, or those of a protocol; None if it was not tested."""
        found = [Worst(*one) for one in self.stressed if not protocol or one[0].protocol == protocol]
        return min(found, key=lambda one: one.mean.value, default=None)


@dataclass(frozen=True)
class Refused:
    """Submission that is not shown, since its check has found errors."""

    name: str
    errors: Sequence[str]


@dataclass(frozen=True)
class Board:
    """All submissions of a leaderboard."""

    entries: Sequence[Entry]
    refused: Sequence[Refused] = ()
    limits: Sequence[str] = ()
    """Sentences on what the checks show and what they do not."""

    @cached_property
    def history(self) -> dict[str, list[Entry]]:
        """Submissions by name, the newest first."""
        found: dict[str, list[Entry]] = {}
        for entry in sorted(self.entries, key=lambda one: (one.packed_at, one.identity), reverse=True):
            found.setdefault(entry.name, []).append(entry)
        return found

    @property
    def lines(self) -> Iterator[Line]:
        """A line per detector of the newest submission of every name."""
        for newest, *_ in self.history.values():
            yield from (Line(newest, subject) for subject in newest.overview.subjects)

    @property
    def stressful(self) -> dict[str, str]:
        """Titles of the protocols that test detectors under stress."""
        return {
            one.protocol: one.title
            for entry in self.entries
            for one in entry.overview.conditions
            if not one.stress.clean
        }
