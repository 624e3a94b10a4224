"""Accuracy of the networks that detectors read, on test and on validation images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from farout.metrics.intervals import Interval, clopper_pearson_bounds
from farout.protocols.shared.columns import SEED
from farout.report.content import COUNT, INTERVAL, LABEL, VALUE, Column, Table
from farout.study.cells.cell import Entry
from farout.study.cells.predict import PredictCell
from farout.study.results import CLASSIFIED, Results, Row
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.subjects.subject import Subject

CLASSIFIER = Column("classifier", LABEL)
TEST_ACCURACY = Column("test_accuracy", INTERVAL, better="higher")
N_TEST = Column("n_test", COUNT)
VALIDATION_ACCURACY = Column("validation_accuracy", VALUE, better="higher")


def classifiers(subjects: Iterable[Subject]) -> dict[str, NetworkSource]:
    """Return, by label, the networks that predict classes."""
    found = {subject.network: subject.classifier for subject in subjects}
    return {label: network for label, network in found.items() if network and network.about.classes > 1}


def classified(protocol: str, seed: int, subjects: Sequence[Subject], images: ImageSource) -> Iterator[Entry]:
    """Yield the cells of the networks' predictions on labeled test images; they share a pass that is needed anyway."""
    if not images.about.labeled:
        return
    for label, network in classifiers(subject for subject in subjects if subject.shares).items():
        tags = {"role": CLASSIFIED, "network": label, "seed": str(seed), "detector": "", "outliers": ""}
        yield Entry(protocol, PredictCell(network, images), tags)


def networks(results: Results, protocol: str, scored: Iterable[Row]) -> list[Table]:
    """Return the table of the networks' accuracy; `scored` are the rows of inlier scores."""
    tested = {_key(row): row for row in results.classified(protocol)}
    lines: dict[tuple[str, str], dict[Column, Any]] = {}
    for row in scored:
        found = tested.get(_key(row))
        figures = {**(tested_accuracy(results, found) if found else {}), **_validated(results, row)}
        if figures:
            network, seed = _key(row)
            lines[_key(row)] = {CLASSIFIER: network, SEED: seed, **figures}
    if not lines:
        return []
    caption = (
        "Accuracy (fraction of images classified correctly) of the networks that the detectors read; higher is better, "
        "1 is ideal. test_accuracy: on the n_test inlier test images of this section, in brackets its 95 % interval "
        "(Clopper-Pearson). validation_accuracy: on the inliers' validation images; it is too high if these were cut "
        "from images that the network was trained on. If an accuracy is lower than you expect, check the network's "
        "mean and std."
    )
    return [Table(f"{protocol}_networks", "Accuracy of the networks", caption, list(lines.values()))]


def _key(row: Row) -> tuple[str, str]:
    return row.tags["network"], row.tags["seed"]


def tested_accuracy(results: Results, row: Row) -> dict[Column, Any]:
    """Return the accuracy of the predictions of a row on test images, and the number of these."""
    correct = results.store.column(row.cell, "prediction") == results.labels(row)
    fraction = float(np.mean(correct))
    interval = Interval(fraction, *clopper_pearson_bounds(fraction, len(correct), 0.025))
    return {TEST_ACCURACY: interval, N_TEST: len(correct)}


def _validated(results: Results, row: Row) -> dict[Column, Any]:
    """Return the accuracy on the validation images, as stored with the fits of the row's detector."""
    stored = (results.store.facts(cell).get("accuracy") for cell in row.requires if results.store.has(cell))
    accuracies = [accuracy for accuracy in stored if accuracy is not None]
    return {VALIDATION_ACCURACY: accuracies[-1]} if accuracies else {}
