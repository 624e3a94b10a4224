"""AUROC of detectors under stresses: what protocols measured, and the means over outlier sets and seeds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan, nan
from typing import NamedTuple

from farout.report.content.table import EXTRA, INTERVAL, LABEL, VALUE, Column, Table

CHANCE = 0.5
"""AUROC of a detector that guesses."""


SIGNIFICANT = 0.05
"""Smallest p-value at which two detectors cannot be told apart."""


class Subject(NamedTuple):
    """Detector and the network that it reads; an empty network if it reads none that the study names."""

    network: str
    detector: str


class Measured(NamedTuple):
    """AUROC of one detector on one outlier set under one stress, with its 95 % interval."""

    subject: Subject
    outliers: str
    value: float
    low: float
    high: float
    n_inliers: int
    n_outliers: int


@dataclass(frozen=True)
class Standing:
    """Result of tests between all pairs of detectors under one stress."""

    best: Subject
    """Detector with the highest mean AUROC."""
    p_values: Mapping[Subject, float]
    """p-value of every other detector against the best, corrected for all pairs (Holm)."""
    pairs: int
    """Number of pairs that were tested."""
    paired: bool
    """True if all detectors scored the same images, so that the tests are paired."""


@dataclass(frozen=True)
class Stress:
    """One condition that detectors are tested in; `clean` marks the reference without any stress."""

    name: str
    about: str
    """Phrase that completes "AUROC …", such as "of outliers whose color a search has changed"."""
    measured: Sequence[Measured]
    clean: bool = False
    standing: Standing | None = None
    """Tests between the detectors; None if their scores are not known."""


@dataclass(frozen=True)
class Mean:
    """Mean AUROC over outlier sets and seeds.

    The bounds are the means of the sets' bounds. This interval is never narrower than the exact one, because the
    standard deviation of a mean is at most the mean of the standard deviations, whatever the correlation.
    """

    parts: Sequence[Measured]

    @cached_property
    def value(self) -> float:
        return self._mean("value")

    @cached_property
    def low(self) -> float:
        return self._mean("low")

    @cached_property
    def high(self) -> float:
        return self._mean("high")

    @property
    def interval(self) -> tuple[float, float, float]:
        """Value with its bounds."""
        return self.value, self.low, self.high

    @property
    def sets(self) -> list[str]:
        """Names of the outlier sets."""
        return list(dict.fromkeys(part.outliers for part in self.parts))

    @property
    def weakest(self) -> Measured:
        """Lowest of the parts."""
        return min(self.parts, key=lambda part: part.value)

    def _mean(self, field: str) -> float:
        return float(sum(getattr(part, field) for part in self.parts) / len(self.parts))


@dataclass(frozen=True)
class Condition:
    """Stress as a column of the overview: with its protocol, and the means by subject."""

    protocol: str
    title: str
    """Short title of the protocol."""
    stress: Stress
    means: Mapping[Subject, Mean]

    @property
    def name(self) -> str:
        return self.stress.name

    @cached_property
    def ranking(self) -> list[Subject]:
        """Subjects by mean AUROC, the best first."""
        return sorted(self.means, key=lambda one: -self.means[one].value)

    def tied(self, subject: Subject) -> bool:
        """Return True if a subject is not distinguishable from the best: by the tests; without, by their intervals."""
        best, standing = self.ranking[0], self.stress.standing
        if subject == best:
            return False
        if standing and standing.best == best and subject in standing.p_values:
            return standing.p_values[subject] >= SIGNIFICANT
        return self.means[subject].high >= self.means[best].low

    @property
    def unpaired(self) -> bool:
        """True if several detectors were compared without pairing: they scored different images, or are not known."""
        return len(self.means) > 1 and not (self.stress.standing and self.stress.standing.paired)


@dataclass(frozen=True)
class Overview:
    """All detectors under all stresses, the detectors best first by the clean reference."""

    conditions: Sequence[Condition]
    costs: Mapping[Subject, float] = field(default_factory=dict)
    """Seconds per 10,000 images by subject; empty if they were not measured."""
    extra_data: Collection[str] = ()
    """Names of the detectors that learned from outliers too."""

    @cached_property
    def reference(self) -> Condition | None:
        """Clean condition with the most detectors; of several the first. None without clean results."""
        clean = [condition for condition in self.conditions if condition.stress.clean]
        return max(clean, key=lambda condition: len(condition.means), default=None)

    @cached_property
    def subjects(self) -> list[Subject]:
        """All subjects: by AUROC in the reference, those without it last, by their mean AUROC."""
        every = dict.fromkeys(subject for condition in self.conditions for subject in condition.means)
        first = self.reference.means if self.reference else {}

        def key(subject: Subject) -> tuple[bool, float]:
            found = [one.means[subject].value for one in self.conditions if subject in one.means]
            return subject not in first, -(first[subject].value if subject in first else sum(found) / len(found))

        return sorted(every, key=key)

    def name(self, condition: Condition) -> str:
        """Return the name of a condition, with its protocol's title if another one has the same name."""
        same = [one for one in self.conditions if one.name == condition.name]
        return f"{condition.name}, {condition.title}" if len(same) > 1 else condition.name

    @property
    def networks(self) -> list[str]:
        """Names of the networks."""
        return list(dict.fromkeys(subject.network for subject in self.subjects))

    def label(self, subject: Subject) -> str:
        """Return the detector's name, with its network if there are several."""
        several = len(self.networks) > 1 and subject.network
        return f"{subject.detector} on {subject.network}" if several else subject.detector

    def of(self, subject: Subject) -> list[tuple[Condition, Mean]]:
        """Return the conditions in which a subject was tested, with its means."""
        return [(one, one.means[subject]) for one in self.conditions if subject in one.means]

    def clean_of(self, condition: Condition) -> Condition | None:
        """Return the clean condition of the same protocol; None if there is none."""
        same = (one for one in self.conditions if one.protocol == condition.protocol and one.stress.clean)
        return next(same, None)

    @property
    def table(self) -> Table:
        """Table of a line per detector and a column per stress."""
        network, detector = Column("network", LABEL, varying=True), Column("detector", LABEL)
        columns = [
            Column(f"{one.protocol}: {one.name}", INTERVAL, of="stress", better="higher") for one in self.conditions
        ]
        lines = [
            {network: subject.network, detector: subject.detector}
            | {
                column: one.means[subject].interval if subject in one.means else (nan, nan, nan)
                for column, one in zip(columns, self.conditions, strict=True)
            }
            | ({SECONDS: self.costs.get(subject, nan)} if self.costs else {})
            for subject in self.subjects
        ]
        extra = [EXTRA if subject.detector in self.extra_data else "" for subject in self.subjects]
        return Table(
            "overview", "AUROC of all detectors under all stresses", CAPTION + (TIME if self.costs else ""), lines,
            marks={detector: extra} if any(extra) else {},
        )  # fmt: skip


SECONDS = Column("seconds_per_10000", VALUE, better="lower")
CAPTION = (
    "AUROC: the probability that an outlier gets a higher score than an inlier. Higher is better: 1 is ideal, 0.5 is "
    "chance; below 0.5 outliers look more normal to the detector than inliers do. Where a stress was run with several "
    "outlier sets or seeds, the mean over them. In brackets the 95 % interval; of a mean, the means of the bounds, an "
    "interval that is at least as wide as the exact one. –: not tested."
)
TIME = (
    " seconds_per_10000: seconds that the detector alone takes for 10,000 images; lower is better, see the section on "
    "inference time."
)


def overview(
    stresses: Mapping[str, Sequence[Stress]],
    titles: Mapping[str, str],
    costs: Mapping[Subject, float] | None = None,
    extra_data: Collection[str] = (),
) -> Overview:
    """Return the overview of the stresses by protocol; results that are missing are left out.

    titles: short titles of the protocols. extra_data: names of the detectors that learned from outliers too.
    """
    found = [_condition(name, titles[name], stress) for name, group in stresses.items() for stress in group]
    return Overview([condition for condition in found if condition.means], costs or {}, extra_data)


def _condition(protocol: str, title: str, stress: Stress) -> Condition:
    parts: dict[Subject, list[Measured]] = {}
    for one in stress.measured:
        if not isnan(one.value):
            parts.setdefault(one.subject, []).append(one)
    return Condition(protocol, title, stress, {subject: Mean(found) for subject, found in parts.items()})
