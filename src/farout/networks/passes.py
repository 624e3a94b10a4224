"""Passes of images through a network: one that detectors share, and those that some need for themselves."""

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
    """One pass in evaluation mode, without gradients; of the blocks only what is needed is kept."""
    with network.evaluating():
        activations: Activations = network(as_images(images, network.device), needs=needs)
    return activations


def look(network: Network, detector: PostHoc, images: Tensor) -> Activations:
    """What a detector that perturbs reads of these images; gradients flow where the caller has them on."""
    with network.evaluating():
        with torch.inference_mode(False):
            images = images.clone()  # a tensor made in inference_mode takes no gradients
        return detector.look(network, images)


@contextmanager
def with_gradients() -> Iterator[None]:
    """Gradients, also where the caller has switched them off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield
