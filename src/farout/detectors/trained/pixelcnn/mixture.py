"""Mixture of discretized logistic distributions of a pixel (Salimans et al. 2017, sections 2.1 and 2.2)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

HALF_BIN = 1 / 255
"""Half the distance of two 8-bit values in [−1, 1]."""
EDGE = 0.999
"""Values beyond this are 0 and 255, whose bins reach to infinity."""
LEAST_LOG_SCALE = -7.0


class Mixture(NamedTuple):
    """Parameters of the mixtures of all pixels."""

    logits: Tensor  # [B, M, H, W]
    means: Tensor  # [B, C, M, H, W]
    log_scales: Tensor  # [B, C, M, H, W]
    coefficients: Tensor | None  # [B, 3, M, H, W]: of red for green, of red and of green for blue; None for one channel

    @classmethod
    def split(cls, outputs: Tensor, channels: int) -> Mixture:
        """Read the outputs [B, `count_outputs`, H, W] of a network."""
        batch, count, height, width = outputs.shape
        kinds = 3 if channels == 3 else 2
        mixtures = count // (1 + kinds * channels)
        rest = outputs[:, mixtures:].reshape(batch, channels, kinds, mixtures, height, width)
        coefficients = rest[:, :, 2].tanh() if channels == 3 else None
        return cls(outputs[:, :mixtures], rest[:, :, 0], rest[:, :, 1].clamp(min=LEAST_LOG_SCALE), coefficients)


def count_outputs(channels: int, mixtures: int) -> int:
    """Return the number of outputs per pixel: a logit per mixture, and per channel means, scales and coefficients."""
    return mixtures * (10 if channels == 3 else 3)


def log_probabilities(images: Tensor, mixture: Mixture) -> Tensor:
    """Return ln p of every pixel of images [B, C, H, W] in [−1, 1]: [B, H, W]."""
    channels = channel_log_probabilities(images, mixture).sum(1)
    return (channels + mixture.logits.log_softmax(1)).logsumexp(1)


def channel_log_probabilities(images: Tensor, mixture: Mixture) -> Tensor:
    """Return ln p of every value under every component, given the channels before it: [B, C, M, H, W].

    With a = (x + 1/255 − m)/s and b = (x − 1/255 − m)/s, ln (σ(a) − σ(b)) = ln σ(a) + ln σ(−b) + ln (1 − exp(b − a)).
    The authors compute the difference, and replace it by the density where it is below 1e-5; this form is exact.
    """
    values = images[:, :, None]
    centered = values - conditional_means(images, mixture)
    inverse = (-mixture.log_scales).exp()
    above, below = (F.logsigmoid(sign * inverse * (centered + sign * HALF_BIN)) for sign in (1, -1))
    inside = above + below + (-torch.expm1(-2 * HALF_BIN * inverse)).log()
    return torch.where(values < -EDGE, above, torch.where(values > EDGE, below, inside))


def conditional_means(images: Tensor, mixture: Mixture) -> Tensor:
    """Return the means given the channels before: green's depends on red, blue's on red and green (eq. 3)."""
    if mixture.coefficients is None:
        return mixture.means
    red, green = images[:, 0:1], images[:, 1:2]
    means, (first, second, third) = mixture.means.unbind(1), mixture.coefficients.unbind(1)
    return torch.stack([means[0], means[1] + first * red, means[2] + second * red + third * green], 1)
