"""Cells of `rood`: scores of inliers, of outliers, and of every shift of the inliers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from farout.core import Shift
from farout.protocols.rood.classes import one_class_names
from farout.protocols.shared.budgets import IMAGES, least
from farout.protocols.shared.selection import select
from farout.study.cells.cell import Entry
from farout.study.cells.score import ScoreCell
from farout.study.sources.images import (
    BalancedImages,
    ClassImages,
    ImageSource,
    MatchedImages,
    ShiftedImages,
    SoundImages,
    UncorruptedImages,
)
from farout.study.spec import Budget
from farout.study.study import Trial
from farout.study.subjects.subject import Subject

if TYPE_CHECKING:
    from farout.protocols.rood.plan import Rood


INLIERS: dict[Budget, int | None] = {"quick": 500, "standard": 2_000, "full": None}
"""Largest number of inlier test images, each scored under every shift. One-class: of all classes together."""


SEED = 0
"""Seed of the shifts, the same as in sets that `farout corrupt` writes."""


class Tested(NamedTuple):
    """Detector with the class that it takes for the inliers."""

    subject: Subject
    label: int | None
    """None: all classes."""
    of: str
    """Name of the class; empty for all."""


class TrialPlan:
    """Builder of the cells of one trial."""

    def __init__(self, protocol: Rood, trial: Trial, budget: Budget) -> None:
        self.protocol, self.trial = protocol, trial
        self.test: ImageSource = MatchedImages(trial.inliers.test, trial.inliers.test.about.shape)
        self.count, self.outliers = least(protocol.images, INLIERS[budget]), IMAGES[budget]
        self._parts: dict[tuple[int, int], ImageSource] = {}

    def entries(self) -> Iterator[Entry]:
        """Yield the cells of detectors that share a pass, then of each other detector, which is costly to fit."""
        tested = [one for subject in select(self.trial, self.protocol.detectors) for one in self._tested(subject)]
        for one in tested:
            one.subject.check()
        yield from self._entries([one for one in tested if one.subject.shares])
        for one in tested:
            if not one.subject.shares:
                yield from self._entries([one])

    def _entries(self, tested: Sequence[Tested]) -> Iterator[Entry]:
        """Yield the scores of unchanged images, then of every shift of the inliers."""
        clean = self._subset(self.test)
        yield from (self._entry(one, clean) for one in tested)
        for name, source in self.trial.outliers.items():
            images = self.trial.stressed(UncorruptedImages(source), self.outliers)
            yield from (self._entry(one, images, outliers=name) for one in tested if one.label is None)
        for setup, shifts in self.protocol.setups.items():
            for shift in shifts:
                images = SoundImages(self._subset(ShiftedImages(self.test, shift, SEED)))
                tags = {"setup": setup, "shift": _name(shift), "severity": str(shift.params.get("severity", ""))}
                yield from (self._entry(one, self._inliers(one, images), **tags) for one in tested)

    def _subset(self, images: ImageSource) -> ImageSource:
        whole = UncorruptedImages(images)
        return whole if self.count is None else BalancedImages(whole, self.count)

    def _tested(self, subject: Subject) -> list[Tested]:
        """Return the detector for all classes, or one fitted on every single class."""
        if not self.protocol.takes_classes(subject):
            return [Tested(subject, None, "")]
        return [
            Tested(subject.fitted_on(partial(self._of_class, label)), label, name)
            for label, name in self._classes.items()
        ]

    def _of_class(self, label: int, images: ImageSource) -> ImageSource:
        """Return the images of one class; all detectors share the source, since it takes time to fingerprint files."""
        return self._parts.setdefault((id(images), label), ClassImages(images, label))

    @cached_property
    def _classes(self) -> dict[int, str]:
        sources = (self.trial.inliers.test, self._subset(self.test), self._train)
        return one_class_names(*(source.preview() for source in sources))

    @property
    def _train(self) -> ImageSource:
        assert self.trial.inliers.train is not None  # or the study would not suit
        return self.trial.inliers.train

    def _inliers(self, one: Tested, images: ImageSource) -> ImageSource:
        """Return the shifted images of the detector's inliers; of all classes where detectors share the pass, since
        the classes can then share it too."""
        return images if one.label is None or one.subject.shares else ClassImages(images, one.label)

    def _entry(self, one: Tested, images: ImageSource, **tags: str) -> Entry:
        names = {"network": one.subject.network, "seed": str(self.trial.seed), "detector": one.subject.label}
        which = {"class": "", "label": "", "n_train": ""}
        if one.label is not None:
            fitted_on = self._of_class(one.label, self._train).about.total
            which = {"class": one.of, "label": str(one.label), "n_train": str(fitted_on)}
        details: dict[str, Any] = {"outliers": "", "setup": "", "shift": "", "severity": "", **tags}
        return Entry(self.protocol.name, ScoreCell(one.subject, images), {**names, **which, **details})


def _name(shift: Shift) -> str:
    """Return the label of a shift without its severity."""
    return shift.label.removesuffix(f" {shift.params['severity']}") if "severity" in shift.params else shift.label
