"""Standing statistics: means and variances of batch norms, estimated with the weights that generate."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

BATCHES, SIZE = 16, 64
"""Batches over which statistics are averaged, and latents in each."""


@torch.no_grad()
def estimate_statistics(network: nn.Module, inputs: Iterable[tuple[Tensor, Tensor | None]]) -> None:
    """Set the running statistics of all batch norms to their means over these inputs; nothing else changes.

    Statistics that were collected during training belong to weights of the past and, with a moving average of the
    weights, to other weights altogether. Statistics of the batch, as in the public CIFAR script, would make an image
    depend on the images that are generated with it.
    """
    network.eval()
    norms = [part for part in network.modules() if isinstance(part, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over all batches
        norm.train()
    for latents, labels in inputs:
        network(latents, labels)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
