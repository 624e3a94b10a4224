"""AutoAugment's CIFAR-10 policy: a training augmentation, and no part of any protocol's sets of shifts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from farout.core import Params, Shift
from farout.shifts.catalog import register
from farout.shifts.kernels.levels import from_bytes, to_bytes
from farout.shifts.kernels.pillow_operations import OPERATIONS, SIGNED, magnitude


class Step(NamedTuple):
    """One operation of a sub-policy: its name, how often it is applied, and the bin of its magnitude."""

    name: str
    probability: float
    bin: int = 0


POLICY: tuple[tuple[Step, Step], ...] = (
    (Step("invert", 0.1), Step("contrast", 0.2, 6)),
    (Step("rotate", 0.7, 2), Step("translate_x", 0.3, 9)),
    (Step("sharpness", 0.8, 1), Step("sharpness", 0.9, 3)),
    (Step("shear_y", 0.5, 8), Step("translate_y", 0.7, 9)),
    (Step("auto_contrast", 0.5), Step("equalize", 0.9)),
    (Step("shear_y", 0.2, 7), Step("posterize", 0.3, 7)),
    (Step("color", 0.4, 3), Step("brightness", 0.6, 7)),
    (Step("sharpness", 0.3, 9), Step("brightness", 0.7, 9)),
    (Step("equalize", 0.6), Step("equalize", 0.5)),
    (Step("contrast", 0.6, 7), Step("sharpness", 0.6, 5)),
    (Step("color", 0.7, 7), Step("translate_x", 0.5, 8)),
    (Step("equalize", 0.3), Step("auto_contrast", 0.4)),
    (Step("translate_y", 0.4, 3), Step("sharpness", 0.2, 6)),
    (Step("brightness", 0.9, 6), Step("color", 0.2, 8)),
    (Step("solarize", 0.5, 2), Step("invert", 0.0)),
    (Step("equalize", 0.2), Step("auto_contrast", 0.6)),
    (Step("equalize", 0.2), Step("equalize", 0.6)),
    (Step("color", 0.9, 9), Step("equalize", 0.6)),
    (Step("auto_contrast", 0.8), Step("solarize", 0.2, 8)),
    (Step("brightness", 0.1, 3), Step("color", 0.7, 0)),
    (Step("solarize", 0.4, 5), Step("auto_contrast", 0.9)),
    (Step("translate_y", 0.9, 9), Step("translate_y", 0.7, 9)),
    (Step("auto_contrast", 0.9), Step("solarize", 0.8, 3)),
    (Step("equalize", 0.8), Step("invert", 0.1)),
    (Step("translate_y", 0.7, 9), Step("auto_contrast", 0.9)),
)
"""The 25 sub-policies of Cubuk et al. 2019, appendix, with the magnitudes that torchvision gives their bins."""


@register
class AutoAugmentCifar(Shift):
    """One of 25 pairs of operations, each applied with its own probability: AutoAugment for CIFAR-10, for training.

    Cubuk et al. 2019 (arXiv:1805.09501), as torchvision has it: shears, translations and rotations take the nearest
    pixel and black from outside, half of the signed magnitudes are negative. A gray image keeps its color.
    """

    name = "autoaugment_cifar"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        return {
            "policy": torch.randint(len(POLICY), (), generator=rng),
            "chance": torch.rand(2, generator=rng),
            "negative": torch.randint(2, (2,), generator=rng).bool(),
        }

    def apply(self, images: Tensor, params: Params) -> Tensor:
        levels = to_bytes(images)
        drawn = zip(*(params[name].tolist() for name in ("policy", "chance", "negative")), strict=True)
        for one, (policy, chances, negative) in zip(levels, drawn, strict=True):
            steps = [
                (step.name, _signed(step, down, one.shape))
                for step, chance, down in zip(POLICY[policy], chances, negative, strict=True)
                if chance < step.probability
            ]
            one[...] = _applied(one, steps)
        return from_bytes(levels).to(images.device)


def _signed(step: Step, negative: bool, shape: tuple[int, ...]) -> float:
    size = magnitude(step.name, step.bin, *shape[:2])
    return -size if negative and step.name in SIGNED else size


def _applied(levels: np.ndarray, steps: Sequence[tuple[str, float]]) -> np.ndarray:  # [H, W, C]
    """Return the image after these operations, one after the other."""
    if not steps:
        return levels
    image = Image.fromarray(levels.squeeze(2) if levels.shape[2] == 1 else levels)
    for name, by in steps:
        image = OPERATIONS[name](image, by)
    return np.asarray(image).reshape(levels.shape)
