"""How far an attack moves a network's attention."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from farout.attention.grad_cam import grad_cam
from farout.attention.ssim import ssim
from farout.networks.network import Network


class AttentionShift(NamedTuple):
    """Two batches of maps and how they differ, image by image."""

    l2: Tensor  # [B] float64, 0 where the maps are the same, at most 1
    ssim: Tensor  # [B] float64, 1 where the maps are the same
    before: Tensor  # [B, H, W] in [0, 1], of the benign images
    after: Tensor  # [B, H, W] in [0, 1], of the attacked ones


def attention_shift(network: Network, benign: Tensor, attacked: Tensor, *, layer: str | None = None) -> AttentionShift:
    """The Grad-CAM maps of images before and after an attack, their mean squared difference and their similarity.

    Each map is for the class predicted on that image. Lorenz et al. 2024, section 4.2: high L2 and low SSIM tell of
    another attention, high L2 and high SSIM of one that moved, low L2 and high SSIM of the same.
    """
    if benign.shape != attacked.shape:
        raise ValueError(
            f"expected as many attacked images as benign ones, of one size, "
            f"got shapes {list(benign.shape)} and {list(attacked.shape)}"
        )
    before, after = (grad_cam(network, images, layer=layer) for images in (benign, attacked))
    return AttentionShift((before.double() - after.double()).square().mean((1, 2)), ssim(before, after), before, after)
