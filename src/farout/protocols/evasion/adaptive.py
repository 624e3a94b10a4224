"""Table of `evasion` on attacks on the detector itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from farout import metrics
from farout.metrics.setups import recall_threshold
from farout.protocols.evasion.levels import GRADIENT, gradient
from farout.protocols.evasion.measures import RESAMPLES, Line, detection_measures, fraction
from farout.protocols.evasion.results import EvasionResults, Test
from farout.protocols.shared.columns import ATTACK, AUROC, FPR_AT_95_ID_RECALL, IMAGES, OUTLIERS
from farout.protocols.shared.pairs import Array
from farout.protocols.shared.threads import in_threads
from farout.report.content import INTERVAL, LABEL, Column

BEFORE_BY = Column("before_by", LABEL)
BEFORE = Column("before", INTERVAL, better="higher")
ACCEPTED_BEFORE, ACCEPTED, EVADES = (
    Column(name, INTERVAL, better="lower") for name in ("accepted_before", "accepted", "evades")
)
OWN = (
    "Attacks that know the detector; each detector is tested on the images that were attacked on it. Without outliers: "
    "test images are changed so that they are misclassified and look normal, and are compared with the unchanged test "
    "images; before: the same images under an attack on the classifier alone (before_by). With outliers: these are "
    "changed so that they look normal; before: unchanged. before and auroc: AUROC against the unchanged test images "
    "before and under the attack; higher is better, 1 is ideal, 0.5 is chance. accepted_before and accepted: fraction "
    "of the images below the threshold that accepts 95 % of the inliers; lower is better. evades: fraction of the "
    "images classified correctly before that are now both misclassified and accepted; lower is better. gradient: the "
    "score's own, or estimated from queries if it has none. images: number of attacked images. In brackets 95 % "
    "intervals (of evades: with a fixed threshold)."
)


def own_lines(found: EvasionResults) -> list[Line]:
    """Return a line per detector and attack on it."""
    parts = in_threads(lambda test: list(_lines(found, test)), found.tests("own_attacked"))
    return [line for part in parts for line in part]


def _lines(found: EvasionResults, test: Test) -> Iterator[Line]:
    line: Line = {**test.subject.line, ATTACK: test.attack, OUTLIERS: test.outlier_set}
    line |= {IMAGES: len(test.outliers), GRADIENT: gradient(found, test), BEFORE_BY: ""}
    if not test.outlier_set:
        yield line | _adaptive(found, test)
    elif (before := found.outliers(test)) is not None:
        yield line | _disguised(test, before)


def _disguised(test: Test, before: Array) -> Line:
    """Return the measures of outliers that are attacked to look normal, before and under the attack."""
    line: Line = {BEFORE: metrics.auroc_interval(test.inliers, before)}
    line |= {AUROC: metrics.auroc_interval(test.inliers, test.outliers)}
    for column, outliers in ((ACCEPTED_BEFORE, before), (ACCEPTED, test.outliers)):
        measure = {column: metrics.fpr_at_95_id_recall}
        line |= test.results.intervals.bootstrap(measure, test.inliers, outliers, resamples=RESAMPLES)
    return line


def _adaptive(found: EvasionResults, test: Test) -> Line:
    """Return the measures of test images under an attack on the classifier alone, and under one on both."""
    line: Line = {}
    if usual := _classifier_attack(found, test):
        figures = detection_measures(usual, np.isin(usual.index, test.index))
        line = {BEFORE_BY: usual.attack, BEFORE: figures[AUROC], ACCEPTED_BEFORE: figures[FPR_AT_95_ID_RECALL]}
    figures = detection_measures(test, np.ones(len(test.outliers), bool))
    line |= {AUROC: figures[AUROC], ACCEPTED: figures[FPR_AT_95_ID_RECALL]}
    correct = np.asarray(found.results.attribute(test.row, "clean_correct"))
    accepted = test.outliers <= recall_threshold(test.inliers)
    return line | {EVADES: fraction((test.successful & accepted)[correct])}


def _classifier_attack(found: EvasionResults, test: Test) -> Test | None:
    """Return the same detector's test under an attack on the classifier alone: best of the same bound, and pgd."""
    mine = found.settings(test)["params"].get("epsilon")

    def unlike(other: Test) -> tuple[bool, bool]:
        settings = found.settings(other)
        return settings["params"].get("epsilon") != mine, settings["name"] != "pgd"

    others = (one for one in found.tests("attacked") if one.subject == test.subject and one.at_home)
    return min(others, key=unlike, default=None)
