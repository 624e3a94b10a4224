"""Forward passes: the one that detectors share, the perturbed passes of single detectors, and gradient modes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from farout.core import Activations, PostHoc
from farout.networks.network import Network
from farout.tensors import as_images


@torch.inference_mode()
def forward(network: Network, images: Tensor, needs: frozenset[str]) -> Activations:
    """Run one forward pass in evaluation mode, without gradients; keep only the block outputs that are needed."""
    with network.evaluating():
        activations: Activations = network(as_images(images, network.device), needs=needs)
    return activations


def perturbed_pass(network: Network, detector: PostHoc, images: Tensor) -> Activations:
    """Return the activations of a perturbing detector's own passes; gradients flow if the caller enabled them."""
    with network.evaluating():
        with torch.inference_mode(False):
            images = images.clone()  # inference tensors take no gradients
        return detector.perturbed_pass(network, images)


@contextmanager
def with_gradients() -> Iterator[None]:
    """Enable gradients inside the block, also if the caller disabled them."""
    with torch.inference_mode(False), torch.enable_grad():
        yield
