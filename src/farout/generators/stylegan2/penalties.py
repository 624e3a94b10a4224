"""Gradient penalties of StyleGAN2: R1 of the discriminator, and the path length of the generator."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def r1_penalty(discriminator: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Return the mean of ½ ‖∇D(x)‖² over real images (Mescheder et al. 2018, eq. 9)."""
    images = images.detach().requires_grad_()
    with torch.enable_grad():
        (gradients,) = torch.autograd.grad(discriminator(images).sum(), images, create_graph=True)
    return gradients.square().sum((1, 2, 3)).mean() / 2


def path_lengths(images: Tensor, styles: Tensor, noise: Tensor) -> Tensor:
    """Return √(mean over styles of ‖Jᵀ y‖²) per image [B] (Karras et al. 2020, eq. 4).

    images: [B, C, H, W], computed from styles [B, number, style]; noise: N(0, 1) of the images' shape, divided here by
    √(H · W), so that a length does not depend on the resolution.
    """
    noise = noise / (images.shape[2] * images.shape[3]) ** 0.5
    (gradients,) = torch.autograd.grad((images * noise).sum(), styles, create_graph=True)
    return gradients.square().sum(2).mean(1).sqrt()
