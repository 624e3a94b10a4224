"""Sanity check (Fig. 4): labels of generated sets by an independent ensemble, and accuracy of the generators' own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from farout.metrics.intervals import Interval, clopper_pearson_bounds
from farout.protocols.raised_bar.entries import NEAR, SEPARATOR, SHIFTED, TEST
from farout.protocols.raised_bar.results import BarResults
from farout.protocols.shared.columns import IMAGES, NETWORK
from farout.protocols.shared.networks import tested_accuracy
from farout.report.content import INTERVAL, LABEL, Column, HeatMap, Line, Table
from farout.study.results import Row, positions

SET, KIND, REFERENCE = (Column(name, LABEL) for name in ("set", "kind", "reference"))
AGREEMENT = Column("agreement", INTERVAL)
TRUE, ASKED, SEEN = "label", "class asked of the generator", "class that the generators' ensemble predicts"
LARGEST = 20
"""Largest number of classes of a confusion matrix that is drawn."""


class Checked(NamedTuple):
    """Classes of one image set: those that it should have, and those that the sanity ensemble predicts."""

    title: str
    kind: str
    reference: str
    """Kind of the expected classes."""
    expected: NDArray[np.int64]
    predicted: NDArray[np.int64]
    classes: list[str]
    """Names of all classes."""

    @property
    def agreement(self) -> Interval:
        """Fraction of images whose predicted class is the expected one."""
        fraction, n = float(np.mean(self.expected == self.predicted)), len(self.expected)
        return Interval(fraction, *clopper_pearson_bounds(fraction, n, 0.025))

    @property
    def matrix(self) -> pd.DataFrame:
        """Fractions of predicted classes (columns) among the images of each expected class (row)."""
        counts = np.zeros((len(self.classes), len(self.classes)))
        np.add.at(counts, (self.expected, self.predicted), 1)
        with np.errstate(invalid="ignore"):  # a class without images
            return pd.DataFrame(counts / counts.sum(1, keepdims=True), self.classes, self.classes)


def checked_sets(bar: BarResults) -> list[Checked]:
    """Return the test images and all generated sets with a result, of the first seed."""
    tested = bar.first("sanity", kind=TEST)[:1]
    shifted = [row for label in bar.labels(SHIFTED) for row in bar.first("sanity", kind=SHIFTED, set=label)]
    near = [row for label in bar.labels(NEAR) for row in bar.first("sanity", kind=NEAR, set=label)]
    return [checked for row in (*tested, *shifted, *near) if (checked := _checked(bar, row))]


def _checked(bar: BarResults, row: Row) -> Checked | None:
    """Return the classes of the images of a row; None if those that they should have are missing."""
    label, kind, names = (row.tags[name] for name in ("set", "kind", "classes"))
    expected = _expected(bar, label, row) if kind == NEAR else (TRUE, bar.results.labels(row))
    if expected is None:
        return None
    title = TEST if kind == TEST else bar.title(label)
    return Checked(title, kind, *expected, bar.predictions(row), names.split(SEPARATOR))


def _expected(bar: BarResults, label: str, row: Row) -> tuple[str, NDArray[np.int64]] | None:
    """Return the classes of Near-OoD images: those asked of the generator, else those of the generators' ensemble."""
    for made in bar.first("set", set=label):
        if (asked := bar.asked_classes(made, row)) is not None:
            return ASKED, asked
    for other in bar.first("reference", set=label):
        return SEEN, bar.predictions(other)[positions(bar.results.index(row), bar.results.index(other))]
    return None


def lost_labels(found: Sequence[Checked]) -> set[str]:
    """Return the Shifted sets that have lost their labels: less than half as much agreement as on test images."""
    tested = [one.agreement.value for one in found if one.kind == TEST]
    return {one.title for one in found for least in tested if one.kind == SHIFTED and one.agreement.value < least / 2}


def kept_labels(found: Sequence[Checked]) -> str:
    """Return the sentence that says how far labels of Shifted images can be trusted; empty if it is not known."""
    shares = {one.title: f"{one.agreement.value:.1%} of {one.title}" for one in found if one.kind in (SHIFTED, TEST)}
    tested = shares.pop(TEST, "")
    if not shares:
        return ""
    return (
        f" The sanity ensemble gives the label to {', '.join(shares.values())} images{tested and f' and to {tested}'}: "
        "where it is far lower on a Shifted set, the images have lost their labels, and the calibration error there is "
        "that of wrong labels rather than of overconfident networks."
    )


def sanity_table(found: list[Checked]) -> list[Table]:
    """Return the table of agreement; empty if there is no result."""
    if not found:
        return []
    lines: list[Line] = [
        {SET: one.title, KIND: one.kind, REFERENCE: one.reference, IMAGES: len(one.expected), AGREEMENT: one.agreement}
        for one in found
    ]
    caption = (
        "Sanity check by an ensemble that the generators have not seen. agreement: fraction of images whose predicted "
        "class is the reference; in brackets its 95 % interval (Clopper-Pearson). test: the accuracy of the ensemble. "
        "shifted: should be as high as on test images, since the label is kept; a set with less than half of it has "
        "lost its labels and enters no rank. near: should be low, since the images belong to no class. "
        f"reference: the images' label; for Near-OoD the {ASKED} or, if it has no classes, the "
        f"{SEEN}: two ensembles that see the same content agree."
    )
    return [Table("raised_bar_sanity", "Sanity check: labels kept and lost", caption, lines)]


def confusion(found: list[Checked]) -> list[HeatMap]:
    """Return confusion matrices, a panel per image set; none if there are too many classes."""
    panels = {f"{one.title} ({len(one.expected):,})": one.matrix for one in found if len(one.classes) <= LARGEST}
    if not panels:
        return []
    caption = (
        "How networks that the generators have not seen classify the images: fractions of predicted classes (columns) "
        "among the images of each class (rows), in brackets the number of images. The rows of Near-OoD images are the "
        "classes that the table of the sanity check names as their reference. "
        "Shifted images keep their class if the diagonal is blue. Near-OoD images have lost it "
        "if the diagonal is red, their predictions spread over a row."
    )
    return [
        HeatMap(
            "raised_bar_confusion",
            "Confusion matrices of generated sets",
            caption,
            panels,
            "fraction of the row's images",
        )
    ]


def members_table(bar: BarResults) -> list[Table]:
    """Return the table of the accuracy of the ensembles that generators are trained against; empty if there is none."""
    lines: list[Line] = [
        {SET: label, NETWORK: row.tags["network"], **tested_accuracy(bar.results, row)}
        for kind in (NEAR, SHIFTED)
        for label in bar.labels(kind)
        for row in bar.first("member", set=label)
    ]
    if not lines:
        return []
    caption = (
        "Test accuracy of the networks whose mutual information is the semantic loss of a generated set, on n_test "
        "inlier test images; higher is better, 1 is ideal. In brackets 95 % intervals (Clopper-Pearson). Mutual "
        "information means a doubtful class only if these networks know the classes."
    )
    return [Table("raised_bar_members", "Accuracy of the generators' ensemble", caption, lines)]
