"""Terms of an objective, computed: mutual information and perceptual distance of generated images."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from farout.core import Activations
from farout.generators.information import mutual_information
from farout.generators.objective import Objective
from farout.generators.pairing import nearest, same_class
from farout.generators.perceptual import lpips_module, perceptual_distance

Module = TypeVar("Module", bound=nn.Module)


def frozen(module: Module, device: torch.device) -> Module:
    """Return a copy in eval mode without gradients for its weights: passes build graphs of the inputs only."""
    return copy.deepcopy(module).to(device).eval().requires_grad_(False)


class Terms:
    """Weighted terms of an objective on a device, with frozen copies of its networks."""

    def __init__(self, objective: Objective, device: torch.device) -> None:
        assert objective.lambda_p is not None
        assert objective.lambda_s is not None
        sign = 1.0 if objective.name == "near" else -1.0
        self.objective, self.perceptual, self.semantic = (
            objective,
            sign * objective.lambda_p,
            -sign * objective.lambda_s,
        )
        self.ensemble = frozen(objective.ensemble, device) if objective.ensemble and objective.lambda_s else None
        self.features = self.lpips = None
        if objective.lambda_p and objective.form == "lpips":
            self.lpips = frozen(lpips_module(), device)
        elif objective.lambda_p and objective.features is not None:
            self.features = frozen(objective.features, device)

    def __call__(
        self,
        generated: Tensor,
        real: Tensor,
        real_labels: Tensor | None = None,
        generated_labels: Tensor | None = None,
    ) -> Tensor:
        """Return the sum of the weighted terms, a mean over the generated images.

        generated, real: images [B, C, H, W] in [0, 1]; of translated images, `real` are the originals.
        """
        total = generated.new_zeros(())
        if self.ensemble is not None:
            members: Activations = self.ensemble(generated, needs=())
            assert members.members is not None
            total = total + self.semantic * mutual_information(members.members).mean()
            if generated_labels is None:
                generated_labels = members.logits.detach().argmax(1)
        if self.perceptual:
            total = total + self.perceptual * self._distance(generated, real, real_labels, generated_labels).mean()
        return total

    def _distance(self, generated: Tensor, real: Tensor, labels: Tensor | None, predicted: Tensor | None) -> Tensor:
        """Return the perceptual distance of every generated image to its real partner, [B]."""
        partners = self._same_class(labels, predicted) if self.objective.pairing == "same_class" else None
        if self.features is None:
            real = real if partners is None else real[partners]
            distance: Tensor = self.lpips(_rgb(generated), _rgb(real)).flatten()  # type: ignore[misc]
            return distance
        needs = ("blocks",)
        with torch.no_grad():
            originals: Activations = self.features(real, needs=needs)
        activations: Activations = self.features(generated, needs=needs)
        if self.objective.pairing == "nearest":
            partners = nearest(activations.features, originals.features)
        return perceptual_distance(
            activations, originals if partners is None else originals[partners], self.objective.form
        )

    @staticmethod
    def _same_class(labels: Tensor | None, predicted: Tensor | None) -> Tensor:
        if labels is None or predicted is None:
            missing = "labels of the training images" if labels is None else "an ensemble, or a generator with classes"
            raise ValueError(f'pairing="same_class" needs {missing}')
        return same_class(predicted, labels)


def _rgb(images: Tensor) -> Any:
    """Return images as LPIPS expects them: three channels in [−1, 1]."""
    return images.expand(-1, 3, -1, -1) * 2 - 1
