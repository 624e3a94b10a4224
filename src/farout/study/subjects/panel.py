"""Subject: one detector of a fitted panel in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch

from farout.attacks.target import Target
from farout.detectors.panel import provenance as tuned
from farout.detectors.panel import supervision
from farout.detectors.panel.panel import Panel
from farout.detectors.panel.saving import state_digest
from farout.identity import digest
from farout.networks.network import Network
from farout.study.cells.errors import attempt
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import LiveNetwork, NetworkSource
from farout.study.store import Store
from farout.study.subjects.shared_pass import previews, shared_pass
from farout.study.subjects.subject import Subject

if TYPE_CHECKING:
    from farout.study.subjects.subject import Score


@dataclass(frozen=True)
class PanelSubject(Subject):
    """One detector of a fitted panel in this process."""

    label: str
    panel: Panel
    weights: str
    """Digest of the network."""
    network: str = "network"
    fitted_before: Mapping[str, ImageSource] = field(default_factory=dict, compare=False)
    """Splits that the panel was fitted on, if known."""
    portable = False

    @property
    def shares(self) -> bool:
        return not self.panel.detectors[self.label].perturbs

    @property
    def learns(self) -> Mapping[str, ImageSource]:
        split = self.panel.detectors[self.label].fits_on
        return {name: images for name, images in self.fitted_before.items() if name == split}

    @cached_property
    def _identity(self) -> Any:
        detector = self.panel.detectors[self.label]
        return {"detector": detector.identity(), "network": self.weights, "state": state_digest(detector)}

    def identity(self) -> Any:
        return self._identity

    def notes(self, inliers: ImageSource, outliers: Mapping[str, ImageSource]) -> list[str]:
        notes = []
        if record := self.panel.tuned.get(self.label):
            notes.append(tuned.note(self.label, record, inliers.preview(), previews(outliers)))
        if learned := self.panel.learned.get(self.label):
            notes.append(supervision.note(self.label, learned, previews(outliers)))
        return notes

    @property
    def group(self) -> str:
        return digest(["network", self.weights])

    @property
    def classifier(self) -> NetworkSource | None:
        return LiveNetwork(self.panel.network, self.weights, self.network)

    def open(self, together: list[Any], store: Store, device: torch.device) -> Score:
        network = self.panel.network
        return shared_pass(network, [attempt(partial(subject.panel_on, network, store)) for subject in together])

    def panel_on(self, network: Network, store: Store) -> Panel:
        """Return the panel of this detector alone, on its own network."""
        return self.panel.only(self.label)

    def target(self, store: Store, device: torch.device) -> Target:
        return Target(self.panel.network, self.panel.detectors[self.label])
