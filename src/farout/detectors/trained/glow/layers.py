"""Invertible layers of Glow (Kingma & Dhariwal 2018, section 3 and Table 1).

`forward` returns the output and ln |det ∂output/∂input|, a scalar or one per image; `inverse` returns the input.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = 1e-6
"""Added to the standard deviation that ActNorm divides by at initialization."""
LOGS_FACTOR = 3.0
"""Factor of the log-scales of a zero convolution."""


class Invertible(nn.Module, ABC):
    """Layer with an inverse."""

    @abstractmethod
    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs and the log-determinant."""

    @abstractmethod
    def inverse(self, outputs: Tensor) -> Tensor:
        """Return the inputs."""


class Logit(Invertible):
    """Map of [0, 1] to the real line, y = logit(α + (1 − 2α) x) (Dinh et al. 2017, section 4.1)."""

    alpha = 0.05

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        inside = 1 - 2 * self.alpha
        outputs = torch.logit(self.alpha + inside * inputs)
        slopes = F.softplus(outputs) + F.softplus(-outputs)
        return outputs, slopes.flatten(1).sum(1) + inputs[0].numel() * math.log(inside)

    def inverse(self, outputs: Tensor) -> Tensor:
        return (outputs.sigmoid() - self.alpha) / (1 - 2 * self.alpha)


class ActNorm(Invertible):
    """Scale and shift per channel, (x + b) · exp(s), which at initialization standardize a batch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(channels, 1, 1))
        self.log_scale = nn.Parameter(torch.zeros(channels, 1, 1))

    @torch.no_grad()
    def initialize(self, inputs: Tensor) -> None:
        """Set shift and scale so that these inputs get mean 0 and standard deviation 1."""
        deviation, mean = torch.std_mean(inputs, (0, 2, 3), correction=0)
        self.shift.copy_(-mean[:, None, None])
        self.log_scale.copy_(-(deviation + EPSILON).log()[:, None, None])

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        positions = inputs.shape[2] * inputs.shape[3]
        return (inputs + self.shift) * self.log_scale.exp(), self.log_scale.sum() * positions

    def inverse(self, outputs: Tensor) -> Tensor:
        return outputs * (-self.log_scale).exp() - self.shift


class Mixing(Invertible):
    """Invertible 1×1 convolution, which starts as a random rotation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        positions = inputs.shape[2] * inputs.shape[3]
        return F.conv2d(inputs, self.weight[:, :, None, None]), torch.linalg.slogdet(self.weight)[1] * positions

    def inverse(self, outputs: Tensor) -> Tensor:
        weight = torch.linalg.inv(self.weight.double()).to(self.weight)
        return F.conv2d(outputs, weight[:, :, None, None])


class ZeroConvolution(nn.Module):
    """3×3 convolution that starts at zero, with outputs scaled by exp(3 s)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.log_scale = nn.Parameter(torch.zeros(outputs, 1, 1))
        for parameter in self.convolution.parameters():
            nn.init.zeros_(parameter)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.convolution(inputs) * (LOGS_FACTOR * self.log_scale).exp()
        return outputs


class NormedConvolution(nn.Module):
    """Convolution, ActNorm and ReLU; the norm is folded into the convolution, which saves passes over its outputs."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.norm = ActNorm(outputs)
        nn.init.normal_(self.convolution.weight, std=0.05)

    def initialize(self, inputs: Tensor) -> None:
        """Standardize the convolution of these inputs."""
        self.norm.initialize(self.convolution(inputs))

    def forward(self, inputs: Tensor) -> Tensor:
        scale = self.norm.log_scale.exp()
        weight, bias = self.convolution.weight * scale[:, None], (self.norm.shift * scale).flatten()
        return F.conv2d(inputs, weight, bias, padding=self.convolution.padding).relu_()


def coupling_net(inputs: int, width: int, outputs: int) -> nn.Sequential:
    """Return the network of a coupling: 3×3, 1×1, and a zero convolution of 3×3."""
    return nn.Sequential(
        NormedConvolution(inputs, width, 3), NormedConvolution(width, width, 1), ZeroConvolution(width, outputs)
    )


class Coupling(Invertible):
    """Affine coupling: the first half of the channels sets shift and scale σ(h + 2) of the second."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.net = coupling_net(channels // 2, width, channels)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        first, second = inputs.chunk(2, 1)
        shift, log_scale = self._affine(first)
        return torch.cat([first, (second + shift) * log_scale.exp()], 1), log_scale.flatten(1).sum(1)

    def inverse(self, outputs: Tensor) -> Tensor:
        first, second = outputs.chunk(2, 1)
        shift, log_scale = self._affine(first)
        return torch.cat([first, second * (-log_scale).exp() - shift], 1)

    def _affine(self, first: Tensor) -> tuple[Tensor, Tensor]:
        outputs = self.net(first)
        return outputs[:, ::2], F.logsigmoid(outputs[:, 1::2] + 2)


class Split(nn.Module):
    """Second half of the channels, standardized by the mean and scale that a zero convolution of the first gives.

    This is the learned prior N(μ(z₁), exp(2 s(z₁))) of the half that leaves the flow, written as a transformation.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.prior = ZeroConvolution(channels // 2, channels)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the first half, the standardized second, and the log-determinant."""
        first, second = inputs.chunk(2, 1)
        mean, log_scale = self._prior(first)
        return first, (second - mean) * (-log_scale).exp(), -log_scale.flatten(1).sum(1)

    def inverse(self, first: Tensor, latent: Tensor) -> Tensor:
        """Return the inputs."""
        mean, log_scale = self._prior(first)
        return torch.cat([first, latent * log_scale.exp() + mean], 1)

    def _prior(self, first: Tensor) -> tuple[Tensor, Tensor]:
        outputs = self.prior(first)
        return outputs[:, ::2], outputs[:, 1::2]
