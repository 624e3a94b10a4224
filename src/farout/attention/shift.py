"""Shift of a network's attention by an attack."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from farout.attention.grad_cam import grad_cam
from farout.metrics.similarity import ssim
from farout.networks.network import Network


class AttentionShift(NamedTuple):
    """Two batches of maps and their distances, image by image."""

    l2: Tensor  # [B] float64, 0 for equal maps, at most 1
    ssim: Tensor  # [B] float64, 1 for equal maps
    before: Tensor  # [B, H, W] in [0, 1], of the benign images
    after: Tensor  # [B, H, W] in [0, 1], of the attacked ones


def attention_shift(network: Network, benign: Tensor, attacked: Tensor, *, layer: str | None = None) -> AttentionShift:
    """Return Grad-CAM maps of images before and after an attack, their mean squared difference and their SSIM.

    Each map is for the class predicted on that image. Lorenz et al. 2024, section 4.2: high L2 and low SSIM mean a
    different attention, high L2 and high SSIM a displaced one, low L2 and high SSIM the same.
    """
    if benign.shape != attacked.shape:
        raise ValueError(
            f"expected the same number and size of benign and attacked images, "
            f"got shapes {list(benign.shape)} and {list(attacked.shape)}"
        )
    before, after = (grad_cam(network, images, layer=layer) for images in (benign, attacked))
    return AttentionShift((before.double() - after.double()).square().mean((1, 2)), ssim(before, after), before, after)
