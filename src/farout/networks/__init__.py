"""Classifiers: networks by name, any module as a `Network`, and one training loop."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from farout.core import Head
from farout.networks import convolutional, densenet, inception, residual, timm_bridge, transformer, wide  # noqa: F401
from farout.networks.base import NETWORKS, seeded
from farout.networks.checkpoint import History
from farout.networks.ensemble import Ensemble
from farout.networks.network import Network
from farout.networks.training import accuracy, train
from farout.networks.weights import load_weights, save_weights
from farout.rng import seed_of

__all__ = [
    "NETWORKS",
    "Ensemble",
    "Head",
    "History",
    "Network",
    "accuracy",
    "create",
    "load_weights",
    "names",
    "save_weights",
    "train",
]

SMALLEST = 16
"""The smallest side that leaves every network a map to look at."""


def names() -> list[str]:
    """The names `create` knows."""
    return NETWORKS.names()


def create(
    name: str,
    classes: int,
    side: int,
    channels: int = 3,
    *,
    pretrained: bool = False,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    seed: int = 0,
) -> Network:
    """A network by name for images of this side, in eval mode; its weights depend on `seed` and nothing else.

    Below 96 px the small-image form, whose stem keeps the side; from 96 px on, and for pretrained weights, timm's.
    mean, std: the normalizer; by default 0.5, or what the pretrained weights were trained with.
    """
    maker = NETWORKS[name]
    if classes < 2 or side < SMALLEST or channels not in (1, 3):
        raise ValueError(
            f"expected at least 2 classes, a side of at least {SMALLEST} px and 1 or 3 channels, "
            f"got classes={classes}, side={side} and channels={channels}"
        )
    large = side >= timm_bridge.LARGE and name in timm_bridge.TIMM_NAMES
    with seeded(seed_of(seed, "network", name)), torch.device("cpu"):
        if pretrained or large:
            module = timm_bridge.build(name, classes, side, channels, pretrained=pretrained)
        else:
            module = maker(classes=classes, side=side, channels=channels)
    default = timm_bridge.normalizer(module) if pretrained else (0.5, 0.5)
    return Network(module, mean=default[0] if mean is None else mean, std=default[1] if std is None else std)
