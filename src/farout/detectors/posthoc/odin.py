"""`odin`: temperature-scaled softmax of perturbed images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from farout.checks import check_positive
from farout.core import Activations, PostHoc
from farout.detectors.catalog import register
from farout.detectors.checks import Variant, check_variant
from farout.detectors.math.softmax import log_odds, tail
from farout.networks.passes import with_gradients

if TYPE_CHECKING:
    from farout.networks.network import Network


@register
@dataclass(kw_only=True)
class ODIN(PostHoc):
    """Out-of-distribution detector for neural networks (Liang et al. 2018, eq. 1 and 2): score = 1 − max p(x').

    x' = x − ε·sign(∇ₓ CE(l(x)/T, ŷ)) with pixels in [0, 1], p(x') = softmax(l(x')/T). As in the paper x' is not
    clipped to [0, 1]. The sign is that of the gradient of the log-odds, a monotone function of the cross-entropy.
    OpenOOD moves pixels with zero gradient by −ε, as if sign(0) were 1; the paper does not: variant="openood". (OpenOOD
    perturbs normalized images by ε / std, which is the same step.)
    """

    name = "odin"
    temperature: float = 1000.0
    """T, by which logits are divided."""
    epsilon: float = 0.0014
    """Size of the perturbation, for pixels in [0, 1]."""
    variant: Variant = "paper"

    def __post_init__(self) -> None:
        check_variant(self.variant)
        check_positive("temperature", self.temperature)
        if not 0 <= self.epsilon < math.inf:
            raise ValueError(f"epsilon must be at least 0 and finite, got {self.epsilon}")

    @property
    def perturbs(self) -> bool:
        return True

    def perturbed_pass(self, network: Network, images: Tensor) -> Activations:
        with with_gradients():
            images = self.perturbed(network, images)
        return super().perturbed_pass(network, images)

    def perturbed(self, network: Network, images: Tensor) -> Tensor:
        """Return the perturbed image x' of every image x."""
        inputs = images.detach().requires_grad_()
        logits = network(inputs, needs=()).logits
        if logits.shape[1] < 2:
            raise ValueError("odin needs a network with at least 2 classes, got 1: its softmax does not depend on x")
        (gradient,) = torch.autograd.grad(log_odds(logits.double() / self.temperature).sum(), inputs)
        signs = gradient.sign()
        if self.variant == "openood":
            signs = torch.where(gradient == 0, 1.0, signs)
        return images - self.epsilon * signs

    def score(self, activations: Activations) -> Tensor:
        rest, _ = tail(activations.logits.double() / self.temperature)
        return rest / (1 + rest)
