"""Layers of StyleGAN2 with an equalized learning rate: weights are stored as N(0, 1) and scaled when they are used."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.generators.stylegan2.fir import blur, downsample

SLOPE = 0.2
"""Slope of the leaky ReLU below zero."""
EPSILON = 1e-8


def activate(x: Tensor, gain: float = 1.0) -> Tensor:
    """Return the leaky ReLU × √2, which keeps the second moment of a normal input near 1."""
    return F.leaky_relu(x, SLOPE) * (math.sqrt(2) * gain)


def normalize(z: Tensor) -> Tensor:
    """Return vectors [B, D] with a mean square of 1: only the direction of a latent matters."""
    return z * (z.square().mean(1, keepdim=True) + EPSILON).rsqrt()


class Linear(nn.Module):
    """Linear layer with runtime gain rate / √inputs; stored weights are N(0, 1) / rate (Karras et al. 2018, 4.1)."""

    def __init__(self, inputs: int, outputs: int, *, active: bool = False, bias: float = 0.0, rate: float = 1.0):
        super().__init__()
        self.active, self.rate, self.gain = active, rate, rate / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / rate)
        self.bias = nn.Parameter(torch.full((outputs,), bias))

    def forward(self, x: Tensor) -> Tensor:
        out = F.linear(x, self.weight * self.gain, self.bias * self.rate)
        return activate(out) if self.active else out


class Convolution(nn.Module):
    """Convolution of the discriminator with runtime gain 1 / √(inputs · kernel²) and a leaky ReLU.

    down: filter and keep every second pixel. plain: without bias and activation (the shortcut of a residual block).
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, *, down: bool = False, plain: bool = False) -> None:
        super().__init__()
        self.down, self.gain, self.padding = down, 1 / math.sqrt(inputs * kernel**2), kernel // 2
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel, kernel))
        self.bias = None if plain else nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, gain: float = 1.0) -> Tensor:
        weight = self.weight * self.gain
        if self.bias is None:
            return F.conv2d(downsample(x) if self.down else x, weight) * gain
        if self.down:
            return activate(F.conv2d(blur(x, 1 + self.padding), weight, self.bias, stride=2), gain)
        return activate(F.conv2d(x, weight, self.bias, padding=self.padding), gain)


def modulated_convolution(x: Tensor, weight: Tensor, style: Tensor, *, up: bool = False, demodulate: bool) -> Tensor:
    """Convolve every image with its own weights w_oi s_i (Karras et al. 2020, eqs. 1 and 3).

    x: [B, I, H, W]; weight: [O, I, k, k]; style: [B, I]. With `demodulate`, each output map of each image is divided by
    the norm √(Σ (w_oi s_i)² + 1e-8) of its weights. Scaling the inputs by s and the outputs by the norm is the same sum
    as a grouped convolution on [1, B · I, H, W], without B copies of the weights. With `up`, the side doubles: a
    transposed convolution and the filter × 4.
    """
    padding = weight.shape[2] // 2
    x = x * style[:, :, None, None]
    if up:
        out = 4 * blur(F.conv_transpose2d(x, weight.transpose(0, 1), stride=2), 1)
    else:
        out = F.conv2d(x, weight, padding=padding)
    if demodulate:
        norms = (style.square() @ weight.square().sum((2, 3)).T + EPSILON).rsqrt()  # [B, O]
        out = out * norms[:, :, None, None]
    return out


def minibatch_deviation(x: Tensor, group: int) -> Tensor:
    """Append a map with the standard deviation of every value over groups of images, averaged over the values.

    Groups have `group` images, or the largest smaller number that divides the batch; image i belongs to group
    i mod (B / group) (Karras et al. 2018, section 3).
    """
    batch, _, height, width = x.shape
    size = next(size for size in range(min(group, batch), 0, -1) if batch % size == 0)
    grouped = x.to(torch.promote_types(x.dtype, torch.float32)).unflatten(0, (size, batch // size))
    deviation = (grouped.var(0, correction=0) + EPSILON).sqrt().mean((1, 2, 3))
    return torch.cat([x, deviation.repeat(size)[:, None, None, None].expand(-1, 1, height, width)], 1)
