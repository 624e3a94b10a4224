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
    """By label, the networks that give classes."""
    found = {subject.network: subject.classifier for subject in subjects}
    return {label: network for label, network in found.items() if network and network.preview().classes > 1}


def classified(protocol: str, seed: int, subjects: Sequence[Subject], images: ImageSource) -> Iterator[Entry]:
    """The cells that give the networks' classes of labeled test images, where a pass is made over these anyway."""
    if not images.about.labeled:
        return
    for label, network in classifiers(subject for subject in subjects if subject.shares).items():
        tags = {"role": CLASSIFIED, "network": label, "seed": str(seed), "detector": "", "outliers": ""}
        yield Entry(protocol, PredictCell(network, images), tags)


def networks(results: Results, protocol: str, scored: Iterable[Row]) -> list[Table]:
    """The networks' accuracy: a detector can do no better than the network it reads. `scored`: rows of inliers."""
    tested = {_key(row): row for row in results.classified(protocol)}
    lines: dict[tuple[str, str], dict[Column, Any]] = {}
    for row in scored:
        figures = {**_tested(results, tested.get(_key(row))), **_validated(results, row)}
        if figures:
            network, seed = _key(row)
            lines[_key(row)] = {CLASSIFIER: network, SEED: seed, **figures}
    if not lines:
        return []
    caption = (
        "Accuracy of the networks that the detectors read, 1 is ideal. test_accuracy: on the n_test inlier test images "
        "of this section, with its 95 % interval (Clopper-Pearson). validation_accuracy: on the inliers' validation "
        "images; too high where those were cut from images that the network was trained on. If they are not what you "
        "expect, check mean and std."
    )
    return [Table(f"{protocol}_networks", "Networks", caption, list(lines.values()))]


def _key(row: Row) -> tuple[str, str]:
    return row.tags["network"], row.tags["seed"]


def _tested(results: Results, row: Row | None) -> dict[Column, Any]:
    """Accuracy on the test images."""
    if row is None:
        return {}
    right = results.store.column(row.cell, "prediction") == results.labels(row)
    share = float(np.mean(right))
    interval = Interval(share, *clopper_pearson_bounds(share, len(right), 0.025))
    return {TEST_ACCURACY: interval, N_TEST: len(right)}


def _validated(results: Results, row: Row) -> dict[Column, Any]:
    """Accuracy on the validation images, as the fits of the row's detector have found it."""
    known = (results.store.facts(cell).get("accuracy") for cell in row.requires if results.store.has(cell))
    found = [accuracy for accuracy in known if accuracy is not None]
    return {VALIDATION_ACCURACY: found[-1]} if found else {}
