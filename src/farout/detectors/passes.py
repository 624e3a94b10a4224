"""Passes of images through a network: one that detectors share, and those that some need for themselves."""

from __future__ import annotations

import torch
from torch import Tensor

from farout.core import Activations, PostHoc, as_images
from farout.networks.network import Network


@torch.inference_mode()
def forward(network: Network, images: Tensor, needs: frozenset[str]) -> Activations:
    """One pass in evaluation mode, without gradients; blocks are kept only where they are needed."""
    with network.evaluating():
        activations: Activations = network(as_images(images, network.device), blocks="blocks" in needs)
    return activations


def own_pass(network: Network, detector: PostHoc, images: Tensor) -> Activations:
    """What a detector that perturbs reads: the activations of the images it makes of these.

    The perturbation has gradients, also where the caller has switched them off; the pass has them where the caller has.
    """
    with network.evaluating():
        with torch.inference_mode(False), torch.enable_grad():
            images = detector.perturb(network, images.clone())  # a tensor made in inference_mode takes no gradients
        activations: Activations = network(images, blocks="blocks" in detector.needs)
    return activations
