"""Terms of an objective, computed: mutual information, class and perceptual distance of generated images."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from farout.core import Activations
from farout.generators.information import mutual_information
from farout.generators.objective import Objective
from farout.generators.pairing import nearest, same_class
from farout.generators.perceptual import perceptual_distance
from farout.metrics.similarity import lpips_module
from farout.networks.network import Network

BLOCKS = ("blocks",)
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
        self.objective = objective
        self.perceptual, self.semantic = sign * objective.lambda_p, -sign * objective.lambda_s
        self.members: list[Network] = []
        if objective.ensemble is not None and objective.uses_ensemble:
            self.members = frozen(objective.ensemble, device).members
        self.lpips = frozen(lpips_module(), device) if self.perceptual and objective.form == "lpips" else None
        self.features = self._features(device) if self.perceptual and objective.form != "lpips" else None

    def _features(self, device: torch.device) -> Network:
        """Return the feature network: a member of the ensemble if it is the same, so that they share a pass."""
        network = self.objective.features
        assert network is not None
        same = [member for member in self.members if member.digest == network.digest]
        return same[0] if same else frozen(network, device)

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
        total, shared = generated.new_zeros(()), None
        if self.members:
            outputs = [member(generated, needs=BLOCKS if member is self.features else ()) for member in self.members]
            shared = next((one for one in outputs if one.blocks), None)
            logits = torch.stack([one.logits for one in outputs], 1)
            total = total + self.semantic * mutual_information(logits).mean()
            if self.objective.lambda_c:
                total = total + self.objective.lambda_c * _class_loss(logits, real_labels)
            if generated_labels is None:
                generated_labels = logits.detach().float().softmax(2).mean(1).argmax(1)
        if not self.perceptual:
            return total
        partners = None
        if self.objective.pairing == "same_class":
            partners = _same_class(real_labels, generated_labels)
        if self.lpips is not None:
            distance: Tensor = self.lpips(_rgb(generated), _rgb(real if partners is None else real[partners]))
        else:
            distance = self._distance(generated, real, partners, shared)
        return total + self.perceptual * distance.mean()

    def _distance(self, generated: Tensor, real: Tensor, partners: Tensor | None, shared: Activations | None) -> Tensor:
        """Return the perceptual distance of every generated image to its real partner, [B].

        shared: activations of the generated images, if the ensemble has computed them.
        """
        assert self.features is not None
        with torch.no_grad():
            originals: Activations = self.features(real, needs=BLOCKS)
        activations: Activations = shared or self.features(generated, needs=BLOCKS)
        if self.objective.pairing == "nearest":
            partners = nearest(activations.features, originals.features)
        if partners is not None:
            originals = originals[partners]
        return perceptual_distance(activations, originals, self.objective.form)


def _class_loss(logits: Tensor, labels: Tensor | None) -> Tensor:
    """Return the cross entropy of logits [B, members, classes] to the classes of the originals, a mean over both."""
    if labels is None:
        raise ValueError("lambda_c keeps the class of every image, and the training images have no labels; set it to 0")
    return cross_entropy(logits.float().flatten(0, 1), labels.repeat_interleave(logits.shape[1]))


def _same_class(labels: Tensor | None, predicted: Tensor | None) -> Tensor:
    """Return the partners of the same class."""
    if labels is None or predicted is None:
        missing = "labels of the training images" if labels is None else "an ensemble, or a generator with classes"
        raise ValueError(f'pairing="same_class" needs {missing}')
    return same_class(predicted, labels)


def _rgb(images: Tensor) -> Any:
    """Return images as LPIPS expects them: three channels in [−1, 1]."""
    return images.expand(-1, 3, -1, -1) * 2 - 1
