"""`raised_bar`: Near-OoD outliers and Shifted inliers that generators make from the inliers alone.

"Raising the Bar on the Evaluation of Out-of-Distribution Detection". Near-OoD images are near the training images and
of none of their classes; Shifted images are far from their originals and keep their class. Detectors are tested on
Near-OoD beside conventional outlier sets, the calibration of networks on Shifted beside common corruptions at severity
5. An independent ensemble checks whether labels are lost and kept. Differences from the paper:

- every figure has an interval and its number of images, AUPRC is computed with either side as the positive class;
- FID and the perceptual distance are computed on a feature network that figures name: VGG of the ensemble by default;
- a set whose FID is more than half of that of uniform noise is called undertrained, and enters no rank;
- of a generator without classes, the classes of Near-OoD images are those that the generators' ensemble predicts;
- the L2 distance of 50 at which perceptual distances are compared is scaled to the images' number of values;
- AUROC needs no network: any detector can be tested. Calibration and exposure are for networks only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.raised_bar.entries import TrialPlan
from farout.protocols.raised_bar.exposure import check_unseen, exposed_networks
from farout.protocols.raised_bar.logit_mask import logit_mask
from farout.protocols.raised_bar.sets import BarSets
from farout.protocols.raised_bar.settings import (
    AnyEnsemble,
    ExposureSpec,
    SetOptions,
    parse_corruptions,
    parse_part,
    parse_set,
    parse_shifts,
    resolve_settings,
)
from farout.protocols.raised_bar.tables import summarize
from farout.protocols.shared.selection import check_labels, check_selected
from farout.registry import Named
from farout.report.content import Summary
from farout.study.cells.cell import Entry
from farout.study.generated import generated_cuts
from farout.study.results import Results
from farout.study.sources.images import NamedImages
from farout.study.study import Study, Trial


@PROTOCOLS.register("raised_bar")
class RaisedBar(Protocol):
    """Near-OoD outliers and Shifted inliers that generators make from the inliers alone."""

    name = "raised_bar"
    by_name = True

    def __init__(
        self,
        *,
        near: SetOptions = None,
        shifted: SetOptions = None,
        sanity: Any = None,
        corruptions: Sequence[Named] | bool = True,
        shifts: Sequence[Any] = (),
        exposure: Mapping[str, Any] | bool = False,
        detectors: Sequence[str] | None = None,
    ) -> None:
        """near, shifted: options of the set `near_ood` and `shifted` ({count: 1000, generator: …}); false: no such set.
        Without options, those among the study's outliers are used, else the defaults.
        sanity: ensemble that checks the labels; by default the generators' ensemble, trained with another seed; false:
        no check. corruptions: to compare Shifted with, at severity 5; by default the 15 of CIFAR-10-C; false: none.
        shifts: further labeled sets of the inliers' classes, or of some of them, to compare Shifted with, such as
        imagenet_v2 and imagenet_a.
        exposure: true, or {networks: [label], outliers: {svhn: "svhn:train"}, weight: 0.5}: train networks with these
        outliers and with Near-OoD, and test them on the other sets. detectors: labels of those to test; default: all.
        """
        check_labels("detectors", detectors)
        self.asked = {"near": near is not None, "shifted": shifted is not None}
        self.near, self.shifted = parse_set("near", near), parse_set("shifted", shifted)
        self.check_sanity = sanity is not False
        self.sanity = parse_part("sanity", AnyEnsemble, sanity) if sanity else None
        self.corruptions, self.shifts = parse_corruptions(corruptions), parse_shifts(shifts)
        self.exposure: ExposureSpec | None = None
        if exposure is not False:
            self.exposure = parse_part("exposure", ExposureSpec, {} if exposure is True else exposure)
        self.detectors = detectors

    @classmethod
    def resolve_study(cls, params: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        return resolve_settings(params, folder)

    def unsuited(self, study: Study) -> str | None:
        for trial in study.trials:
            about = trial.inliers.train.about if trial.inliers.train else None
            if about is None or not about.labeled:
                return (
                    "it trains generators on the inliers, and needs a training split with labels: give both splits: "
                    "inliers: {train: …, test: …}"
                )
            if not trial.inliers.test.about.labeled:
                return f"it needs labels, and the test images of {trial.inliers.test.about.name} have none"
            if reason := self._unsuited_shifts(trial):
                return reason
            sets = self.sets(trial, study)
            if not sets.near and not sets.shifted:
                return "it has nothing to test: near and shifted are both false"
            if self.exposure:
                exposed_networks(self.exposure, trial)
                check_unseen(self.exposure, sets.compared)
        return None

    def _unsuited_shifts(self, trial: Trial) -> str | None:
        """Return why one of the further sets cannot be classified; None if all can."""
        for label, spec in self.shifts.items():
            try:
                logit_mask(trial.inliers.test.about, NamedImages(spec).about)
            except ValueError as error:
                return f"shifts: {label} has {error}"
        return None

    def sets(self, trial: Trial, study: Study) -> BarSets:
        """Return the generated sets of a trial. Raise for errors that can be found before any training."""
        return BarSets.of(self, trial, study.budget)

    def cuts(self, study: Study) -> list[str]:
        sets = self.sets(study.trials[0], study)
        own = [(spec, sets.near | sets.shifted) for spec in (self.near, self.shifted) if spec]
        lines = [
            line
            for spec, sources in own
            if spec.title in sources and spec.title not in study.trials[0].outliers
            for line in generated_cuts(spec, sources[spec.title], study.budget)
        ]
        return [*lines, *sets.cuts]

    def plan(self, study: Study) -> list[Entry]:
        check_selected(self.detectors, study)
        return [
            entry
            for trial in study.trials
            for entry in TrialPlan(self, trial, self.sets(trial, study), study.budget).entries()
        ]

    @classmethod
    def summarize(cls, results: Results) -> Summary:
        return summarize(results, cls.name)
