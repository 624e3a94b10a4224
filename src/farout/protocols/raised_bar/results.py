"""Stored results of `raised_bar`: rows by role, FIDs of generated sets, and predictions with their confidence."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farout.metrics import Interval
from farout.metrics.frechet import fid_interval
from farout.protocols.raised_bar.entries import NEAR, NOISE, PLAIN, SHIFTED, TRAINING
from farout.study.cells.features import read_features
from farout.study.cells.generate import CLASS
from farout.study.quality import Quality
from farout.study.results import Results, Row, positions

UNDERTRAINED = ", undertrained"
"""Added to the label of a set that is nearer to noise than to images."""


class Distance(NamedTuple):
    """FID of one image set to the training images."""

    of: str
    kind: str
    fid: Interval
    images: int
    network: str
    """Label of the feature network."""


class Predicted(NamedTuple):
    """Predictions of a network on labeled images."""

    confidence: NDArray[np.float64]
    correct: NDArray[np.bool_]


class BarResults:
    """Results of a run that have a role; scores of outliers are read by `shared.pairs`."""

    def __init__(self, results: Results, protocol: str) -> None:
        self.results, self.store, self.protocol = results, results.store, protocol
        self._rows = [row for row in results.done(protocol) if "role" in row.tags]

    def rows(self, role: str, **tags: str) -> list[Row]:
        """Return the rows of a role with these tags."""
        wanted = {"role": role, **tags}
        return [row for row in self._rows if wanted.items() <= row.tags.items()]

    def first(self, role: str, **tags: str) -> list[Row]:
        """Return the rows of a role with these tags, of the first seed that has any."""
        rows = self.rows(role, **tags)
        return [row for row in rows if row.tags["seed"] == rows[0].tags["seed"]]

    def labels(self, kind: str) -> list[str]:
        """Return the labels of the generated sets of a kind, also of those without a result."""
        planned = (row for row in self.results.rows if row.protocol == self.protocol)
        tags = (row.tags for row in planned if row.tags.get("role") == "set" and row.tags["kind"] == kind)
        return list(dict.fromkeys(found["set"] for found in tags))

    @cached_property
    def distances(self) -> dict[str, list[Distance]]:
        """FIDs by generated set: its own, and those of all sets that it is compared with; of the first seed."""
        sets = [*self.labels(NEAR), *self.labels(SHIFTED)]
        return {label: found for label in sets if (found := self._distances(label))}

    def _distances(self, label: str) -> list[Distance]:
        rows = self.first("features", set=label)
        training = [row for row in rows if row.tags["of"] == TRAINING]
        if not training:
            return []
        real, network = read_features(self.store, training[0].cell), self.store.facts(training[0].cell)["network"]
        return [
            Distance(row.tags["of"], row.tags["kind"], self._fid(row, real), len(real), network)
            for row in rows
            if row is not training[0]
        ]

    def _fid(self, row: Row, real: NDArray[np.float32]) -> Interval:
        return fid_interval(read_features(self.store, row.cell), real)

    def quality(self, label: str) -> Quality | None:
        """Return the FID of a generated set beside that of noise; None if one is missing.

        That of a plain generator is NaN if it is missing: the study trains none beside a generator from a file.
        """
        found = {one.of: one for one in self.distances.get(label, [])}
        if not {label, NOISE} <= found.keys():
            return None
        own, plain, noise = (found[name].fid.value if name in found else float("nan") for name in (label, PLAIN, NOISE))
        return Quality(found[label].network, found[label].images, own, plain, noise)

    def undertrained(self, label: str) -> bool:
        """Return True for a generated set that is nearer to noise than to images."""
        quality = self.quality(label)
        return quality is not None and quality.undertrained

    def title(self, label: str) -> str:
        """Return the label of a set, marked if it is undertrained."""
        return f"{label}{UNDERTRAINED}" if self.undertrained(label) else label

    # Predictions

    def predictions(self, row: Row) -> NDArray[np.int64]:
        """Return the predicted classes of a row."""
        return self.store.column(row.cell, "prediction")

    def predicted(self, **tags: str) -> Predicted | None:
        """Return confidence and correctness of a network on an image set; None if one of them is missing."""
        scores, classes = self.rows("confidence", **tags), self.rows("prediction", **tags)
        if not scores or not classes:
            return None
        correct = self.predictions(classes[0]) == self.results.labels(classes[0])
        return Predicted(1 - self.results.scores(scores[0]), correct)

    def asked_classes(self, made: Row, scored: Row) -> NDArray[np.int64] | None:
        """Return the classes that a generator was asked for, of the images of another row; None if it has none."""
        if CLASS not in self.store.columns(made.cell):
            return None
        places = positions(self.results.index(scored), self.store.column(made.cell, "index"))
        classes: NDArray[np.int64] = self.store.column(made.cell, CLASS)[places]
        return classes
