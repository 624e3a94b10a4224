"""Member of a panel: one of its detectors, as a detector that reads images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from farout.core import Detector, ImageSet
from farout.detectors.panel.saving import state_digest
from farout.networks.passes import perturbed_pass
from farout.tensors import as_images

if TYPE_CHECKING:
    from farout.detectors.panel.panel import Panel


class Member(Detector):
    """One detector of a panel, as a detector that reads images. Gradients flow to images that require them."""

    def __init__(self, panel: Panel, label: str) -> None:
        self.panel, self.name = panel, label

    def fit(self, images: ImageSet) -> None:
        fits_on = self.panel.detectors[self.name].fits_on
        if fits_on is not None:
            splits = {fits_on: images}
            self.panel.only(self.name).fit(splits.get("train"), splits.get("val"))
            for recorded in (self.panel.validation, self.panel.learned):
                recorded.pop(self.name, None)

    def score(self, images: Tensor) -> Tensor:
        detector, network = self.panel.detectors[self.name], self.panel.network
        images = as_images(images, network.device)
        with torch.inference_mode(not images.requires_grad), network.evaluating():
            if not len(images):
                return images.new_empty(0, dtype=torch.float64)
            if detector.perturbs:
                return detector.score(perturbed_pass(network, detector, images))
            return detector.score(network(images, needs=detector.needs))

    def identity(self) -> dict[str, Any]:
        """Return the identity of the detector, its fitted state and its network."""
        detector = self.panel.detectors[self.name]
        return {**detector.identity(), "network": self.panel.network.digest, "state": state_digest(detector)}
