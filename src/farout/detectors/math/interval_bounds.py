"""Interval bound propagation (Gowal et al. 2018): bounds of a network's outputs over a box of inputs."""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn


class Box(NamedTuple):
    """Lowest and highest value of every number."""

    lower: Tensor
    upper: Tensor

    @property
    def center(self) -> Tensor:
        return (self.lower + self.upper) / 2

    @property
    def radius(self) -> Tensor:
        return (self.upper - self.lower) / 2

    @classmethod
    def around(cls, center: Tensor, radius: Tensor) -> Box:
        """Return the box with this center and this distance to its bounds."""
        return cls(center - radius, center + radius)


@singledispatch
def propagate(module: nn.Module, box: Box) -> Box:
    """Return bounds of the module's outputs for all inputs in the box; the module is in evaluation mode."""
    raise TypeError(
        f"no interval bounds for a {type(module).__name__}; there are for convolutions, linear layers, ReLU, pooling, "
        "batch norm and sequences of them"
    )


@propagate.register
def _(module: nn.Sequential, box: Box) -> Box:
    for part in module:
        box = propagate(part, box)
    return box


@propagate.register
def _(module: nn.Conv2d, box: Box) -> Box:
    """Wc ± |W|r, which equals W⁺l + W⁻u and W⁺u + W⁻l; padding is an input of 0."""
    if module.padding_mode != "zeros":
        raise TypeError(f"no interval bounds for a convolution with padding_mode={module.padding_mode!r}")
    spread = F.conv2d(
        box.radius, module.weight.abs(), None, module.stride, module.padding, module.dilation, module.groups
    )
    return Box.around(module(box.center), spread)


@propagate.register
def _(module: nn.Linear, box: Box) -> Box:
    return Box.around(module(box.center), F.linear(box.radius, module.weight.abs()))


@propagate.register
def _(module: nn.BatchNorm2d, box: Box) -> Box:
    """The fixed affine map of evaluation mode; bounds swap where γ is negative."""
    if module.training or module.running_var is None:
        raise ValueError("batch norm has interval bounds in evaluation mode only: call eval() first")
    scale = (module.running_var + module.eps).rsqrt()
    scale = scale if module.weight is None else scale * module.weight
    return Box.around(module(box.center), box.radius * scale.abs().view(1, -1, 1, 1))


@propagate.register(nn.ReLU)
@propagate.register(nn.MaxPool2d)
@propagate.register(nn.AvgPool2d)
@propagate.register(nn.AdaptiveAvgPool2d)
@propagate.register(nn.Flatten)
@propagate.register(nn.Identity)
def _(module: nn.Module, box: Box) -> Box:
    """Monotone functions map bounds to bounds."""
    return Box(module(box.lower), module(box.upper))


@propagate.register
def _(module: nn.Dropout, box: Box) -> Box:
    if module.training:
        raise ValueError("dropout has interval bounds in evaluation mode only: call eval() first")
    return box


def logit_gaps(head: nn.Linear, box: Box) -> Tensor:
    """Return upper bounds of all logit differences z_k − z_j, [B, K, K], for features in the box.

    The last layer is elided: its differences W_k − W_j are bounded as one layer (Bitterwolf et al. 2020).
    """
    weight = head.weight[:, None] - head.weight[None]  # [K, K, D]
    gaps = F.linear(box.center, weight.flatten(0, 1)) + F.linear(box.radius, weight.abs().flatten(0, 1))
    pairs: Tensor = gaps.unflatten(1, weight.shape[:2])
    return pairs if head.bias is None else pairs + (head.bias[:, None] - head.bias[None])


def log_confidence_bound(gaps: Tensor) -> Tensor:
    """Return the upper bound of max_k log p_k, [B]: max_k −log Σ_j exp(−gap_kj) (Bitterwolf et al. 2020, eq. 6)."""
    return -(-gaps.double()).logsumexp(2).amin(1)
