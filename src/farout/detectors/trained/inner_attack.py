"""Inner maximization of adversarial training: signed gradient ascent that keeps the best point of every image."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from farout.attacks.gradients import gradient
from farout.networks.network import Network

Loss = Callable[[Tensor], Tensor]
"""Loss function from logits [B, C] to the values to maximize, [B]; other images do not matter to a value."""


def maximize(
    network: Network, loss: Loss, start: Tensor, bounds: tuple[Tensor, Tensor], *, step: float, steps: int
) -> Tensor:
    """Return the point of the highest loss of every image: of the start and `steps` signed gradient steps in bounds.

    The network is in evaluation mode meanwhile, so that an image's result does not depend on the batch.
    """
    images = best = start.detach()
    highest = start.new_full((len(start),), -torch.inf)
    with network.evaluating():
        for index in range(steps + 1):
            images = images.detach().requires_grad_(index < steps)
            with torch.set_grad_enabled(index < steps):
                values = loss(network(images, needs=()).logits)
            better = values.detach() > highest
            highest = torch.where(better, values.detach(), highest)
            best = torch.where(better[:, None, None, None], images.detach(), best)
            if index < steps:
                images = (images.detach() + step * gradient(values, images).sign_()).clamp(*bounds)
    return best
