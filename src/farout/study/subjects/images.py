"""Subject: a detector that reads images."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.attacks.target import Target
from farout.core import Detector
from farout.detectors.catalog import create_any, names_of
from farout.detectors.trained.detector import TrainedDetector
from farout.identity import describe, digest
from farout.scores import as_scores
from farout.study.cells.cell import Cell
from farout.study.cells.fit import Part
from farout.study.cells.fit_detector import DetectorFitCell, build_fit_cell, description
from farout.study.sources.images import ImageSource
from farout.study.spec import SPLIT, DetectorSpec
from farout.study.store import Store
from farout.study.subjects.subject import Subject
from farout.tensors import as_images

if TYPE_CHECKING:
    from farout.study.subjects.subject import Score


KEPT = ("auxiliary_outliers",)
"""Splits that stay whole where a detector is fitted on a part of the inliers."""
_fitted: dict[str, Detector] = {}
"""Detectors that this process has fitted, because their state cannot be stored, by identity."""


@dataclass(frozen=True)
class ImageSubject(Subject):
    """Detector that reads images: an object of this process, or one that its cell has fitted."""

    label: str
    source: DetectorSpec | Detector
    splits: Mapping[str, ImageSource] = field(default_factory=dict)
    """Images that it may be fitted on: train, val, outliers, auxiliary_outliers."""
    seed: int = 0
    fitted_before: ImageSource | None = field(default=None, compare=False)
    """Images that the user's object was fitted on before the study."""
    network = ""

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return isinstance(self.source, DetectorSpec) and all(source.portable for source in self.splits.values())

    def fitted_on(self, part: Part) -> Subject:
        if not self.splits or isinstance(self.source, Detector):
            return super().fitted_on(part)
        parts = {name: part(self.splits[name]) for name in ("train", "val") if name in self.splits}
        return replace(self, splits=parts | {name: self.splits[name] for name in KEPT if name in self.splits})

    @property
    def learns(self) -> Mapping[str, ImageSource]:
        if self.fit is not None:
            return dict(self.fit.splits)
        fits = self.fitted_before and type(self.make()).fit is not Detector.fit
        return {"train": self.fitted_before} if self.fitted_before and fits else {}

    @property
    def extra_data(self) -> str:
        before = isinstance(self.source, Detector) or "weights" in self.source.params
        detector = self.make() if before else None
        if isinstance(detector, TrainedDetector) and detector.inputs is not None and detector.outliers != "unused":
            learned = "outliers of its training" if detector.extra_data is None else detector.extra_data
            return ", ".join(filter(None, dict.fromkeys((learned, super().extra_data))))
        return super().extra_data

    def check(self) -> None:
        if isinstance(self.source, DetectorSpec) and self.source.name not in names_of(TrainedDetector):
            return
        detector = self.make()
        if not isinstance(detector, TrainedDetector) or (detector.complete and not self.splits):
            return
        if "train" not in self.splits:
            raise ValueError(f"{self.label} must be trained, and the inliers have no train split; {SPLIT}")
        outliers = self.splits.get("auxiliary_outliers")
        detector.check_fit(self.splits["train"].preview(), None if outliers is None else outliers.preview())

    @cached_property
    def fit(self) -> DetectorFitCell | None:
        """Cell that fits the detector; None if nothing is fitted."""
        if isinstance(self.source, Detector):
            return None
        return build_fit_cell(self.label, self.source, self._own, self.make, dict(self.splits), self.seed)

    @property
    def requires(self) -> tuple[Cell, ...]:
        return () if self.fit is None else (self.fit,)

    def stays(self, store: Store) -> bool:
        return self.fit is not None and not self.fit.kept(store)

    def make(self) -> Detector:
        """Return the unfitted detector."""
        if isinstance(self.source, Detector):
            return self.source
        detector = create_any(self.source.name, **self.source.params)
        assert isinstance(detector, Detector)
        return detector

    @cached_property
    def _own(self) -> Any:
        own = describe(self.source) if isinstance(self.source, Detector) else description(self.make)
        if own is None:
            warnings.warn(
                f"{self.label}: this detector cannot be identified by its source and attributes, so its results are "
                "not reused between runs; give it an identity() that returns its name, version and parameters",
                stacklevel=2,
            )
            own = uuid.uuid4().hex
        return own

    def identity(self) -> Any:
        return {"detector": self._own} if self.fit is None else {"fitted": self.fit.id}

    @property
    def group(self) -> str:
        return digest(self.identity())

    def _fitted(self, store: Store) -> Detector:
        """Return the fitted detector; one whose state cannot be stored is fitted once in this process."""
        if self.fit is None:
            return self.make()
        if not self.stays(store):
            return self.fit.fitted(store)
        if self.group not in _fitted:
            _fitted[self.group] = self.fit.fitted(store)
        return _fitted[self.group]

    def open(self, together: list[Any], store: Store, device: torch.device) -> Score:
        detector = self._fitted(store)

        def ask(images: Tensor) -> NDArray[np.float64]:
            with torch.no_grad():
                return as_scores(detector.score(as_images(images, device)), len(images), self.label, detector)

        return lambda images: [partial(ask, images) for _ in together]

    def target(self, store: Store, device: torch.device) -> Target:
        return Target(None, self._fitted(store))
