"""Base of the detectors with a background class: K + 1 classes, outliers are the last (ATOM and ROWL)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.attacks.gradients import ball, cross_entropy
from farout.checks import check_choice
from farout.detectors.trained.classifier import ClassifierDetector, normalized, renamed
from farout.detectors.trained.detector import BY_PRESET, Inputs, Preset
from farout.detectors.trained.inner_attack import maximize
from farout.networks.densenet import DenseNet
from farout.networks.network import Network

BLOCKS = 3
Scoring = Literal["softmax", "logit"]


@dataclass(kw_only=True, eq=False)
class BackgroundDetector(ClassifierDetector):
    """DenseNet-BC with a background class that is trained on clean and attacked outliers.

    The score is the probability of the background class, as the authors compute it, or its logit.
    """

    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"layers": 3, "width": 12, "steps": 2},
        "full": {"layers": 16, "width": 24, "steps": 5},
    }
    layers: int = BY_PRESET
    """Layers of each of the three dense blocks: 16 in DenseNet-BC-100, 3 in one with 22 layers."""
    width: int = BY_PRESET
    """Channels of the stem, twice the growth rate."""
    epsilon: float = 8 / 255
    """Radius of the l_inf ball of the attack in training."""
    steps: int = BY_PRESET
    """Steps of the attack, each of 1.25 · epsilon / steps."""
    scoring: Scoring = "softmax"
    """Score: probability ("softmax") or logit of the background class."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("scoring", self.scoring, ("softmax", "logit"))

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        module = DenseNet((self.layers,) * BLOCKS, inputs.classes + 1, inputs.side, inputs.channels, self.width)
        return {"network": normalized(module, inputs.channels)}

    def compute(self, images: Tensor) -> Tensor:
        logits = self.network(images, needs=()).logits.double()
        outputs: Tensor = logits if self.scoring == "logit" else logits.softmax(1)
        return outputs[:, -1]

    def import_state(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return our tensors from those of a DenseNet of ATOM's authors."""
        return renamed(tensors, _authors_layers(self.layers))


def background(network: Network, images: Tensor) -> Tensor:
    """Return labels of the background class, the last one, for these images."""
    return torch.full((len(images),), network.classes - 1, device=images.device)


def attack(
    network: Network, images: Tensor, labels: Tensor, epsilon: float, steps: int, generator: torch.Generator
) -> Tensor:
    """Return the points of the ball with the highest cross entropy, from a start whose noise is whole 8-bit levels."""
    bounds = ball(images, epsilon)
    levels = ((2 * torch.rand(images.shape, generator=generator) - 1) * 255 * epsilon).round()
    start = (images + levels.to(images) / 255).clamp(*bounds)
    return maximize(
        network, lambda logits: cross_entropy(logits, labels), start, bounds, step=1.25 * epsilon / steps, steps=steps
    )


def background_loss(network: Network, logits: Tensor) -> Tensor:
    """Return the mean cross entropy of outliers with these logits to the background class."""
    return F.cross_entropy(logits, background(network, logits))


def _authors_layers(depth: int) -> dict[str, str]:
    """Return our names of the layers by those of the authors."""
    layers = {"conv1": "conv1", "bn1": "bn1", "fc": "linear"}
    for block in range(1, BLOCKS + 1):
        for index in range(depth):
            for part in ("bn1", "conv1", "bn2", "conv2"):
                layers[f"block{block}.layer.{index}.{part}"] = f"dense{block}.{index}.{part}"
        if block < BLOCKS:
            layers |= {f"trans{block}.bn1": f"transition{block}.0", f"trans{block}.conv1": f"transition{block}.2"}
    return layers
