"""Variational autoencoder with a categorical distribution of every 8-bit value, in the form of DCGAN."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VALUES = 256


class Posterior(NamedTuple):
    """Normal distributions of the latents, one per image."""

    mean: Tensor  # [B, latent]
    log_variance: Tensor  # [B, latent]

    def at(self, noise: Tensor) -> Tensor:
        """Return latents for standard normal noise [latent] or [B, latent]."""
        return self.mean + (self.log_variance / 2).exp() * noise

    def divergence(self) -> Tensor:
        """Return the KL divergence from the standard normal distribution, [B]."""
        return 0.5 * (self.mean.square() + self.log_variance.exp() - 1 - self.log_variance).sum(1)


class VAE(nn.Module):
    """Convolutions of stride 2 down to `smallest` × `smallest`, then one over all positions; the decoder mirrors it."""

    def __init__(self, channels: int, side: int, width: int, latent: int) -> None:
        super().__init__()
        halvings = 3 if side % 8 == 0 else 2
        smallest, widths = side // 2**halvings, [width * 2**level for level in range(halvings)]
        down: list[nn.Module] = [nn.Conv2d(channels, width, 4, 2, 1), nn.LeakyReLU(0.2)]
        up: list[nn.Module] = [nn.ConvTranspose2d(latent, widths[-1], smallest), nn.BatchNorm2d(widths[-1]), nn.ReLU()]
        for small, large in pairwise(widths):
            down += [nn.Conv2d(small, large, 4, 2, 1), nn.BatchNorm2d(large), nn.LeakyReLU(0.2)]
        for small, large in zip(widths[-2::-1], widths[:0:-1], strict=True):
            up += [nn.ConvTranspose2d(large, small, 4, 2, 1), nn.BatchNorm2d(small), nn.ReLU()]
        self.encoder = nn.Sequential(*down, nn.Conv2d(widths[-1], 2 * latent, smallest), nn.Flatten())
        self.decoder = nn.Sequential(*up, nn.ConvTranspose2d(width, channels * VALUES, 4, 2, 1))

    def encode(self, images: Tensor) -> Posterior:
        """Return the posterior of images in [0, 1]."""
        return Posterior(*self.encoder(images).chunk(2, 1))

    def reconstruction(self, images: Tensor, latents: Tensor) -> Tensor:
        """Return −ln p of 8-bit images given latents, [B]."""
        logits = self.decoder(latents[:, :, None, None])
        logits = logits.reshape(len(images), VALUES, *images.shape[1:])
        values = (images.detach() * (VALUES - 1)).round().long()
        return F.cross_entropy(logits, values, reduction="none").flatten(1).sum(1)

    def bound(self, images: Tensor, posterior: Posterior, noise: Tensor) -> Tensor:
        """Return the negative evidence lower bound of every image, averaged over noise [S, latent]: [B]."""
        errors = torch.stack([self.reconstruction(images, posterior.at(one)) for one in noise]).mean(0)
        return errors + posterior.divergence()
