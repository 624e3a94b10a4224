"""Layers of BigGAN: spectral norm, class-conditional batch norm, self-attention, and the orthogonal penalty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

Layer = TypeVar("Layer", bound=nn.Module)


class SpectralNorm(nn.Module):
    """Weights divided by an estimate of their largest singular value (Miyato et al. 2018, algorithm 1).

    Every use makes one power iteration from the stored vector; in training its result is stored. The iteration also
    runs in evaluation: a moving average of the vector has no unit norm, and only its direction is used.
    """

    def __init__(self, outputs: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.u: Tensor
        self.register_buffer("u", torch.randn(outputs))

    def forward(self, weight: Tensor) -> Tensor:
        matrix = weight.flatten(1)
        with torch.autocast(weight.device.type, enabled=False):
            with torch.no_grad():
                v = F.normalize(matrix.T @ self.u, dim=0, eps=self.eps)
                u = F.normalize(matrix @ v, dim=0, eps=self.eps)
                if self.training:
                    self.u.copy_(u)
            return weight / (u @ (matrix @ v))


def spectral(layer: Layer, eps: float) -> Layer:
    """Return the layer with a spectral norm of its weights.

    `unsafe` only skips a trial run, which would make the first power iteration.
    """
    weight = layer.weight
    assert isinstance(weight, Tensor)
    norm = SpectralNorm(len(weight), eps).to(weight.dtype)
    parametrize.register_parametrization(layer, "weight", norm, unsafe=True)
    return layer


class ConditionalNorm(nn.Module):
    """Batch norm with gain and bias from the class: (1 + g) x̂ + b.

    gain, bias: modules from the condition to [B, width]: embeddings of labels, or linear layers of vectors.
    """

    def __init__(self, width: int, gain: nn.Module, bias: nn.Module, eps: float) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(width, eps=eps, affine=False)
        self.gain, self.bias = gain, bias

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        gain, bias = self.gain(condition), self.bias(condition)
        return (1 + gain)[:, :, None, None] * self.norm(x) + bias[:, :, None, None]  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Self-attention with pooled keys and values; its strength is learned from 0 (Zhang et al. 2019)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()

        def convolution(inputs: int, outputs: int) -> nn.Conv2d:
            return spectral(nn.Conv2d(inputs, outputs, 1, bias=False), eps)

        inner, half = max(1, width // 8), max(1, width // 2)
        self.query, self.key = convolution(width, inner), convolution(width, inner)
        self.value, self.out = convolution(width, half), convolution(half, width)
        self.strength = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        query = self.query(x).flatten(2)  # [B, C / 8, H W]
        key = F.max_pool2d(self.key(x), 2).flatten(2)
        value = F.max_pool2d(self.value(x), 2).flatten(2)
        weights = (query.transpose(1, 2) @ key).softmax(2)  # [B, H W, H W / 4]
        attended = (value @ weights.transpose(1, 2)).unflatten(2, x.shape[2:])
        return x + self.strength * self.out(attended)  # type: ignore[no-any-return]


def orthogonal_penalty(weights: Iterable[Tensor]) -> Tensor:
    """Return the sum over matrices of ‖W Wᵀ ⊙ (1 − I)‖²_F (Brock et al. 2019, eq. 3), rows being outputs.

    Its gradient is 4 (W Wᵀ ⊙ (1 − I)) W. The authors' code adds 2 (W Wᵀ ⊙ (1 − I)) W, so that their strength of 1e-4
    is 5e-5 here.
    """
    penalties = []
    for weight in weights:
        gram = weight.flatten(1) @ weight.flatten(1).T
        penalties.append(gram.square().sum() - gram.diagonal().square().sum())
    return torch.stack(penalties).sum()
