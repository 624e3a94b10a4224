"""`rood`: inliers under realistic shifts, which should stay inliers; the generalizability score.

"Are Out-of-Distribution Detection Methods Reliable?" (Realistic OOD benchmark). Inliers are corrupted (19 corruptions
of five severities, setup C) or augmented (setup A) and still count as inliers: AUROC of Y against X' ∪ T(X'), and the
generalizability score GS = AUROC(setup) − AUROC(U), in points (eq. 2). Differences from the paper:

- by default the inliers are the whole training distribution, and outliers are the study's sets: the form that suits any
  classifier. `one_class: true` is the paper's: every class in turn is the inlier, detectors are fitted on its images
  alone, all other classes are outliers. The network is not trained anew, see the tables;
- intervals, which are new: an image and its shifted copies are one cluster (see `farout.metrics.setups`);
- frost is procedural unless `frost_dir` names a folder of photographs;
- a smaller budget takes fewer inliers, the same ones in every setup, and always all shifts;
- images that come corrupted (30 % of the test splits of SHAPES and CHARS) are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.rood.classes import no_one_class
from farout.protocols.rood.entries import INLIERS, TrialPlan
from farout.protocols.rood.setups import Setups, parse_setups
from farout.protocols.rood.tables import summarize
from farout.protocols.shared.budgets import check_counts, cut
from farout.protocols.shared.selection import check_labels, check_selected, select
from farout.report.content import Summary
from farout.study.cells.cell import Entry
from farout.study.results import Results
from farout.study.study import Study, Trial
from farout.study.subjects.subject import Subject


@PROTOCOLS.register("rood")
class Rood(Protocol):
    """Inliers under realistic shifts, which should stay inliers: the generalizability score."""

    name = "rood"

    def __init__(
        self,
        setups: Setups = ("A", "C"),
        *,
        one_class: bool | Sequence[str] = False,
        images: int | None = None,
        frost_dir: str | Path | None = None,
        detectors: Sequence[str] | None = None,
    ) -> None:
        """setups: A (augmentations) and C (corruptions), or one's own: {weather: [fog, {name: snow, severity: 3}]}.
        one_class: make every class in turn the inlier, for all detectors or for those of these labels.
        images: number of inlier test images, at most as many as the budget allows.
        frost_dir: a folder of photographs of frost. detectors: labels of the detectors to test; default: all.
        """
        check_counts(images=images)
        if not isinstance(one_class, bool):
            check_labels("one_class", one_class or [])
            if left := [label for label in one_class if detectors is not None and label not in detectors]:
                raise ValueError(f"one_class names {', '.join(left)}, and detectors does not: add it there too")
        check_labels("detectors", detectors)
        self.setups = parse_setups(setups, frost_dir)
        self.one_class, self.images, self.detectors = one_class, images, detectors

    def unsuited(self, study: Study) -> str | None:
        for trial in study.trials:
            if reason := self._unsuited(trial):
                return reason
        return None

    def _unsuited(self, trial: Trial) -> str | None:
        alone, others = self._apart(trial)
        if others and not trial.outliers:
            names = ", ".join(dict.fromkeys(subject.label for subject in others))
            return (
                f"it needs outliers for {names}, which take all classes together for the inliers: name some "
                "(outliers:), leave these detectors out (detectors:), or make every class in turn the inlier of those "
                "that can learn from one (one_class:)"
            )
        if reason := no_one_class(alone, others):
            return reason
        if alone:
            test = trial.inliers.test.preview()
            if test.labels is None or len(np.unique(test.labels)) < 2:
                return f"one_class needs test images of at least two classes, {test.name} has none or one"
            if trial.inliers.train is None or not trial.inliers.train.about.labeled:
                return "one_class fits detectors on single classes, and the inliers have no training split with labels"
        return None

    def _apart(self, trial: Trial) -> tuple[list[Subject], list[Subject]]:
        """Return the detectors that take every class in turn for the inliers, and those that take all together."""
        tested = select(trial, self.detectors)
        others = [subject for subject in tested if not self.takes_classes(subject)]
        return [subject for subject in tested if self.takes_classes(subject)], others

    def takes_classes(self, subject: Subject) -> bool:
        """Return True if it takes every class in turn for the inliers."""
        return self.one_class if isinstance(self.one_class, bool) else subject.label in self.one_class

    def cuts(self, study: Study) -> list[str]:
        lines = cut(self.images, INLIERS[study.budget], f"inlier images of {self.name}")
        named = study.spec["outliers"] if study.spec else []
        if named and not any(self._apart(trial)[1] for trial in study.trials):
            lines.append(
                f"the outlier sets in {self.name}: with one_class the other classes, or defects, are the outliers"
            )
        return lines

    def plan(self, study: Study) -> list[Entry]:
        for labels in (self.detectors, None if isinstance(self.one_class, bool) else self.one_class):
            check_selected(labels, study)
        return [entry for trial in study.trials for entry in TrialPlan(self, trial, study.budget).entries()]

    @classmethod
    def summarize(cls, results: Results) -> Summary:
        return summarize(results, cls.name)
