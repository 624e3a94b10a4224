"""Subject: a post-hoc detector on a network of the study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from farout.attacks.target import Target
from farout.detectors.panel import supervision
from farout.detectors.panel.panel import Panel
from farout.detectors.panel.provenance import ImagesRecord
from farout.identity import digest
from farout.networks.network import Network
from farout.study.cells.cell import Cell
from farout.study.cells.errors import attempt
from farout.study.cells.fit import MEMBER, FitCell, Part
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.spec import SPLIT
from farout.study.store import Store
from farout.study.subjects.shared_pass import previews, shared_pass
from farout.study.subjects.subject import Subject

if TYPE_CHECKING:
    from farout.study.subjects.subject import Score


@dataclass(frozen=True)
class PostHocSubject(Subject):
    """Post-hoc detector that its cell has fitted."""

    label: str
    fit: FitCell

    @property
    def network(self) -> str:  # type: ignore[override]
        return self.fit.network.label

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return self.fit.network.portable

    def identity(self) -> Any:
        return {"fitted": self.fit.id}

    @property
    def group(self) -> str:
        return digest(["network", self.fit.network.identity()])

    @property
    def shares(self) -> bool:
        return not self.fit.detector.perturbs

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (self.fit,)

    @property
    def learns(self) -> Mapping[str, ImageSource]:
        return self.fit.learns

    def fitted_on(self, part: Part) -> Subject:
        return replace(self, fit=self.fit.on(part))

    def check(self) -> None:
        detector, split = self.fit.detector, self.fit.detector.fits_on
        if split is not None:
            source = self.fit.train if split == "train" else self.fit.val
            if source is None:
                raise ValueError(f"{self.label} must be fitted, and the inliers have no {split} split; {SPLIT}")
            detector.check_fit(source.about.total, source.about.labeled)
        for images in (self.fit.train, self.fit.val):
            if images is not None and not images.about.total:
                raise ValueError(f"{self.label} must be fitted, and {images.about.name} has no images; add some")

    def notes(self, inliers: ImageSource, outliers: Mapping[str, ImageSource]) -> list[str]:
        if self.fit.learns_from is None:
            return []
        return [supervision.note(self.label, ImagesRecord.of(self.fit.learns_from.preview()), previews(outliers))]

    @property
    def classifier(self) -> NetworkSource | None:
        return self.fit.network

    def open(self, together: list[Any], store: Store, device: torch.device) -> Score:
        network = self.fit.network.build(store).to(device)
        return shared_pass(network, [attempt(partial(subject.panel_on, network, store)) for subject in together])

    def panel_on(self, network: Network, store: Store) -> Panel:
        """Return a panel of the fitted detector on its network."""
        return self.fit.fitted(store, network)

    def target(self, store: Store, device: torch.device) -> Target:
        network = self.fit.network.build(store).to(device)
        return Target(network, self.fit.fitted(store, network).detectors[MEMBER])
