"""The table of `evasion` about attacks that know the detector."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from farout import metrics
from farout.metrics.setups import recall_threshold
from farout.protocols.evasion.levels import GRADIENT, gradient
from farout.protocols.evasion.measures import RESAMPLES, Line, detected, share
from farout.protocols.evasion.results import Evaded, Test
from farout.protocols.shared.columns import ATTACK, AUROC, FPR_AT_95_ID_RECALL, IMAGES, OUTLIERS
from farout.protocols.shared.pairs import Array
from farout.report.content import INTERVAL, LABEL, Column

BEFORE_BY = Column("before_by", LABEL)
BEFORE = Column("before", INTERVAL, better="higher")
ACCEPTED_BEFORE, ACCEPTED, EVADES = (
    Column(name, INTERVAL, better="lower") for name in ("accepted_before", "accepted", "evades")
)
OWN = (
    "Attacks that know the detector, each made against the one that judges it. Test images that shall be misclassified "
    "and look normal, against the test images as they are; before: the same images under an attack on the classifier "
    "alone (before_by). Outliers that shall look normal; before: as they were. accepted: the share below the threshold "
    "that keeps 95 % of the inliers. evades: of the images classified right before, those both classified wrong and "
    "accepted. gradient: of the score itself, or estimated from queries where it has none. In brackets 95 % intervals "
    "(of evades with the threshold as given)."
)


def own_lines(found: Evaded) -> list[Line]:
    """A line per detector and attack on it."""
    return [line for test in found.tests("own_attacked") for line in _lines(found, test)]


def _lines(found: Evaded, test: Test) -> Iterator[Line]:
    line: Line = {**test.who.line, ATTACK: test.attack, OUTLIERS: test.outlier_set}
    line |= {IMAGES: len(test.outliers), GRADIENT: gradient(found, test), BEFORE_BY: ""}
    if not test.outlier_set:
        yield line | _adaptive(found, test)
    elif (before := found.outliers(test)) is not None:
        yield line | _turned(test, before)


def _turned(test: Test, before: Array) -> Line:
    """Outliers that shall look normal, as they were and as they are."""
    line: Line = {BEFORE: metrics.auroc_interval(test.inliers, before)}
    line |= {AUROC: metrics.auroc_interval(test.inliers, test.outliers)}
    for column, outliers in ((ACCEPTED_BEFORE, before), (ACCEPTED, test.outliers)):
        line[column] = metrics.bootstrap_interval(
            metrics.fpr_at_95_id_recall, test.inliers, outliers, resamples=RESAMPLES
        )
    return line


def _adaptive(found: Evaded, test: Test) -> Line:
    """Test images under an attack on the classifier alone, and under one on both."""
    line: Line = {}
    if usual := _usual(found, test):
        figures = detected(usual, np.isin(usual.index, test.index))
        line = {BEFORE_BY: usual.attack, BEFORE: figures[AUROC], ACCEPTED_BEFORE: figures[FPR_AT_95_ID_RECALL]}
    figures = detected(test, np.ones(len(test.outliers), bool))
    line |= {AUROC: figures[AUROC], ACCEPTED: figures[FPR_AT_95_ID_RECALL]}
    correct = np.asarray(found.results.attribute(test.row, "clean_correct"))
    accepted = test.outliers <= recall_threshold(test.inliers)
    return line | {EVADES: share((test.successful & accepted)[correct])}


def _usual(found: Evaded, test: Test) -> Test | None:
    """The same detector under an attack on the classifier alone: of the same bound, and pgd, where there is one."""
    mine = found.settings(test)["params"].get("epsilon")

    def unlike(other: Test) -> tuple[bool, bool]:
        settings = found.settings(other)
        return settings["params"].get("epsilon") != mine, settings["name"] != "pgd"

    others = (one for one in found.tests("attacked") if one.who == test.who and one.at_home)
    return min(others, key=unlike, default=None)
