"""Training cell of a network with outlier exposure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from farout.core import ImageSet
from farout.networks.accuracy import check_labels
from farout.study.cells.train import TrainCell
from farout.study.sources.images import ImageSource
from farout.study.store import Store
from farout.training import Task
from farout.training.exposure import OUTLIERS, ExposedClassifier


@dataclass(frozen=True)
class ExposedCell(TrainCell):
    """Network trained on the inliers, and to be undecided on outliers; see `ExposedClassifier`."""

    outliers: ImageSource
    weight: float

    @cached_property
    def identity(self) -> Any:
        exposure = {"outliers": self.outliers.about.fingerprint, "weight": self.weight, "version": 1}
        return {**super().identity, "exposure": exposure}

    @property
    def others(self) -> Mapping[str, ImageSource]:
        return {**super().others, OUTLIERS: self.outliers}

    def task(self, images: ImageSet, others: Mapping[str, ImageSet], store: Store) -> Task:
        check_labels(images, self.classes, "training")
        return ExposedClassifier(
            self.untrained(), others["val"], others[OUTLIERS], batch=self.recipe.batch, weight=self.weight
        )
