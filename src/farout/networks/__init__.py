"""Classifiers: networks by name, any module as a `Network`, and one training loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from farout.core import Head
from farout.networks import convolutional, densenet, inception, residual, timm_bridge, transformer, wide  # noqa: F401
from farout.networks.base import NETWORKS, seeded
from farout.networks.checkpoint import History
from farout.networks.ensemble import Ensemble
from farout.networks.network import Network
from farout.networks.training import accuracy, train
from farout.networks.weights import load_weights, save_weights
from farout.registry import unknown
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

    name: one of `names()`, or "timm:" and any name of timm's, with the tag of its weights or without.
        Below 96 px the small-image form, whose stem keeps the side; from 96 px on, and for pretrained weights, timm's.
    classes: 0 for a network of timm's that gives features alone. Pretrained weights that know other classes than these
        give features alone too: detectors that read logits refuse it, and `train` does. With a layer of its own it can
        be trained: `Network(nn.Sequential(network.module, nn.Linear(…)), …)`.
    mean, std: the normalizer; by default 0.5 of a network of ours, and of one that timm builds what its weights saw
        (of images with one channel 0.5).
    """
    if not isinstance(name, str):
        raise unknown("network", name, names())
    if not all(isinstance(number, int | np.integer) for number in (classes, side, channels)):
        raise TypeError(f"classes, side and channels must be whole numbers, got {classes!r}, {side!r}, {channels!r}")
    maker = None if name.startswith(timm_bridge.PREFIX) else NETWORKS[name]
    if pretrained:
        classes = timm_bridge.pretrained_classes(name, classes, channels)
    elif classes < 2 and not (classes == 0 and timm_bridge.knows(name)):
        raise ValueError(f"expected at least 2 classes (or 0, of timm's networks), got classes={classes} for {name}")
    if side < SMALLEST or channels not in (1, 3):
        raise ValueError(
            f"expected a side of at least {SMALLEST} px and 1 or 3 channels, got side={side} and channels={channels}"
        )
    theirs = pretrained or not classes or timm_bridge.builds(name, side)
    with seeded(seed_of(seed, "network", name)), torch.device("cpu"):
        if maker is None or theirs:
            module = timm_bridge.build(name, classes, side, channels, pretrained=pretrained)
        else:
            module = maker(classes=classes, side=side, channels=channels)
    own = timm_bridge.normalizer(module) if theirs and channels == 3 else (0.5, 0.5)
    return Network(
        module,
        mean=own[0] if mean is None else mean,
        std=own[1] if std is None else std,
        head=None if classes else False,
    )
