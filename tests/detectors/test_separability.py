"""Every detector on a toy whose outliers are obvious: the signs are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from farout import ImageSet, Network, Panel, PostHoc, detectors
from farout.metrics import auroc

VARIANTS = [name for name in detectors.names_of(PostHoc) if "variant" in detectors.create(name).params]  # type: ignore[union-attr]
KINDS = {"ash": [{"kind": "P"}, {"kind": "B"}], "mds_layers": [{"epsilon": 0.0}], "knn": [{"k": 1}]}


class Quadrants(nn.Module):
    """Class k is where the light is in quadrant k; light below a threshold leaves no feature."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.convolution = nn.Conv2d(3, 10, 3, padding=1)
        self.relu = nn.ReLU()
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.head = nn.Linear(40, 4)
        quadrant = torch.arange(40) % 4
        with torch.no_grad():
            self.convolution.weight.copy_(torch.rand(10, 3, 3, 3, generator=generator) / 9)
            self.convolution.bias.fill_(-0.3)
            self.head.weight.copy_(torch.where(quadrant == torch.arange(4)[:, None], 1.0, -1 / 3))
            self.head.bias.copy_(torch.tensor([0.1, -0.1, 0.05, -0.05]))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.pool(self.relu(self.convolution(images))).flatten(1))
        return logits


def drawn(total: int, seed: int, light: float) -> ImageSet:
    """Images with one quadrant in light."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 4, total)
    images = rng.uniform(0, 0.1, (total, 3, 16, 16))
    for image, k in zip(images, classes, strict=True):
        top, left = 8 * (k // 2), 8 * (k % 2)
        image[:, top : top + 8, left : left + 8] += light * rng.uniform(0.5, 1, (3, 8, 8))
    return ImageSet.from_arrays(images.clip(0, 1).astype(np.float32), classes)


def area(name: str, options: tuple[tuple[str, Any], ...]) -> float:
    panel = Panel(Network(Quadrants(), mean=0.0, std=1.0), {name: detectors.create(name, **dict(options))})  # type: ignore[dict-item]
    panel.fit(drawn(2000, 1, 0.9), drawn(200, 2, 0.9))
    return auroc(panel.score(drawn(150, 3, 0.9))[name], panel.score(drawn(150, 4, 0.0))[name])


@pytest.mark.parametrize("name", detectors.names_of(PostHoc))
def test_images_without_light_are_outliers(name: str) -> None:
    assert area(name, ()) > 0.9
    for options in KINDS.get(name, []):
        assert area(name, tuple(options.items())) > 0.9


@pytest.mark.parametrize("name", VARIANTS)
def test_as_openood_computes_them_too(name: str) -> None:
    few = {"vim": [("dim", 20)]}  # features
    assert area(name, (("variant", "openood"), *few.get(name, []))) > 0.9
