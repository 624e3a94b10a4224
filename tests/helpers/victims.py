"""Small networks to attack: affine ones, whose worst case is known, and a convolutional one."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from farout import rng
from farout.attacks import Target
from farout.networks.network import Network


def affine(weights: Tensor, bias: Tensor, shape: tuple[int, int, int]) -> Target:
    """Logits W·x + b of the pixels x, in this order."""
    classes, pixels = weights.shape
    linear = nn.Linear(pixels, classes)
    linear.load_state_dict({"weight": weights, "bias": bias})
    module = nn.Sequential(nn.Flatten(), linear)
    return Target(Network(module, mean=[0.0] * shape[0], std=[1.0] * shape[0], head="1", blocks=()))


def random_affine(
    classes: int, shape: tuple[int, int, int] = (1, 4, 4), seed: int = 0
) -> tuple[Target, Tensor, Tensor]:
    """An affine target, its weights [C, D] and its bias [C]."""
    generator = rng.generator(seed, "affine")
    weights = torch.randn(classes, shape[0] * shape[1] * shape[2], generator=generator)
    bias = -weights.sum(1) / 2 + 0.3 * torch.randn(classes, generator=generator)
    return affine(weights, bias, shape), weights, bias


def convolutional(channels: int = 3, classes: int = 5, seed: int = 0) -> Target:
    """A small convolutional network with random weights, unsure of its classes; it takes sides from 5 px on."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = nn.Sequential(
            nn.Conv2d(channels, 8, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 12, 3, stride=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(48, classes),
        )
    target = Target(Network(module, mean=[0.5] * channels, std=[0.25] * channels, head="6", blocks=()))
    with torch.no_grad():
        module[-1].weight.mul_(20)
        module[-1].bias.sub_(target.logits(pixels(50, (channels, 8, 8), seed=9)).mean(0))
    return target


def pixels(count: int, shape: tuple[int, int, int], seed: int = 0) -> Tensor:
    return torch.rand(count, *shape, generator=rng.generator(seed, "pixels"))


def generators(indices: Iterable[int], seed: int = 0) -> list[torch.Generator]:
    return [rng.generator(seed, "test", index) for index in indices]


@torch.no_grad()
def predicted(target: Target, images: Tensor) -> Tensor:
    return target.logits(images).argmax(1)
