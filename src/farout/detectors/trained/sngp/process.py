"""Gaussian process as the last layer: random Fourier features and the Laplace approximation of their weights."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from farout.networks.wide import WideResNet

PROJECTION = 0.05
"""Standard deviation of the fixed projection of the features."""
FEATURE_SCALE = 2.0
"""Divisor of the random features (DUE's code)."""


class ProcessNetwork(nn.Module):
    """Wide ResNet whose last layer approximates a Gaussian process (Liu et al. 2020, eqs. 7 to 9; settings of DUE).

    Features pass a fixed projection and a layer norm; φ = cos(xW + b) / 2 with fixed W and b are the random features,
    and the logits are linear in φ.
    """

    frequencies: Tensor
    phases: Tensor

    def __init__(self, body: WideResNet, *, reduced: int, random: int) -> None:
        super().__init__()
        inputs, classes, self.side = body.linear.in_features, body.linear.out_features, body.side
        self.block_names = tuple(f"body.{name}" for name in body.block_names)
        self.body = body
        body.linear = nn.Identity()  # type: ignore[assignment]
        self.register_buffer("projection", PROJECTION * torch.randn(inputs, reduced))
        self.norm = nn.LayerNorm(reduced)
        self.register_buffer("frequencies", orthogonal_frequencies(reduced, random))
        self.register_buffer("phases", 2 * torch.pi * torch.rand(random))
        self.beta = nn.Linear(random, classes)

    def forward(self, x: Tensor) -> Tensor:
        reduced = self.norm(self.body(x) @ self.projection)
        return self.beta(torch.cos(reduced @ self.frequencies + self.phases) / FEATURE_SCALE)  # type: ignore[no-any-return]


def orthogonal_frequencies(inputs: int, count: int) -> Tensor:
    """Return frequencies [inputs, count]: columns that are orthogonal within blocks of `inputs`, with the norms of
    normal vectors (Yu et al. 2016, orthogonal random features)."""
    blocks = [torch.linalg.qr(torch.randn(inputs, inputs)).Q for _ in range(-(-count // inputs))]
    norms = torch.randn(count, inputs).norm(dim=1)
    scaled: Tensor = torch.cat(blocks, 1)[:, :count] * norms
    return scaled


def laplace_covariance(features: Iterable[Tensor], count: int) -> Tensor:
    """Return the covariance (I + Σ φφᵀ)⁻¹ of the weights of `count` features, in float64 (Liu et al. 2020, eq. 9, with
    one matrix for all classes: the factors p(1 − p) are 1, as in the authors' code)."""
    precision = torch.eye(count, dtype=torch.float64)
    for rows in features:
        precision = precision.to(rows.device)
        precision += rows.double().T @ rows.double()
    inverse: Tensor = torch.linalg.inv(precision)
    return inverse


def mean_field(logits: Tensor, features: Tensor, covariance: Tensor, factor: float) -> Tensor:
    """Return logits / √(1 + factor · φᵀΣφ), in float64."""
    variance = ((features.double() @ covariance) * features.double()).sum(1, keepdim=True)
    return logits.double() * (1 + factor * variance).rsqrt()


def dempster_shafer(logits: Tensor) -> Tensor:
    """Return the uncertainty K / (K + Σ exp(logit)) of K classes, from 0 to 1."""
    classes = logits.shape[1]
    return torch.sigmoid(torch.log(torch.tensor(float(classes))) - logits.logsumexp(1))
