"""Perceptual distances of changed images, before and after their changes are scaled to equal L2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from farout import ImageSet, Network
from farout.study.cells.perceptual import AT_EQUAL_L2, DISTANCE, L2, PerceptualCell, equal_l2, first_of_classes
from farout.study.engines.run import run
from farout.study.sources.images import LiveImages
from farout.study.sources.networks import LiveNetwork
from farout.study.store import Store


class Pixels(nn.Module):
    """A network whose only block is the image itself."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.head = nn.Identity(), nn.Linear(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.block(x).mean((2, 3)))
        return logits


def measured(tmp_path: Path, change: np.ndarray, form: str = "printed") -> dict[str, np.ndarray]:
    """Distances of images of gray 100 that are changed by so much."""
    originals = np.full((len(change), 4, 4, 1), 100, np.uint8)
    labels = np.arange(len(change)) % 2
    sets = [ImageSet.from_arrays(x.astype(np.uint8), labels) for x in (originals + change, originals)]
    network = Network(Pixels(), mean=[0.0], std=[1.0], head="head", blocks=["block"])
    source = LiveNetwork(network, network.digest, "pixels")
    cell = PerceptualCell(source, LiveImages(sets[0]), LiveImages(sets[1]), form)  # type: ignore[arg-type]
    store = Store(tmp_path).open()
    outcome = run([cell], store)
    assert not outcome.failed
    assert store.facts(cell.id)["network"] == "pixels"
    return {name: store.column(cell.id, name) for name in (DISTANCE, AT_EQUAL_L2, L2)} | {
        "examples": store.arrays(cell.id, "examples.safetensors")["labels"]
    }


def test_the_l2_distance_has_the_papers_mean_square() -> None:
    assert equal_l2((3, 224, 224)) == pytest.approx(50)
    assert equal_l2((1, 28, 28)) == pytest.approx(50 * np.sqrt(784 / 150528))
    for shape in ((1, 28, 28), (3, 32, 32)):
        assert equal_l2(shape) ** 2 / np.prod(shape) == pytest.approx(2500 / (3 * 224 * 224))


def test_changes_are_scaled_to_the_same_l2(tmp_path: Path) -> None:
    change = np.zeros((4, 4, 4, 1), np.int64)
    change[0] += 51  # of all 16 pixels, by 0.2
    change[1] += 102
    change[2, 0, 0] += 51  # of one pixel
    found = measured(tmp_path, change)
    assert found[L2] == pytest.approx([0.8, 1.6, 0.2, 0], abs=1e-6)
    # the printed form over one block that is the image: the squared difference, averaged over positions
    assert found[DISTANCE] == pytest.approx([0.04, 0.16, 0.0025, 0], abs=1e-6)
    same = equal_l2((1, 4, 4)) ** 2 / 16
    assert found[AT_EQUAL_L2] == pytest.approx([same, same, same, 0], abs=1e-6)


def test_values_are_not_clipped(tmp_path: Path) -> None:
    change = np.zeros((1, 4, 4, 1), np.int64)
    change[0, 0, 0] = 1  # scaled to 0.52, the pixel is at 0.92; nine times as much with all change there
    found = measured(tmp_path, change)
    assert found[AT_EQUAL_L2][0] == pytest.approx(equal_l2((1, 4, 4)) ** 2 / 16, rel=1e-4)


def test_channels_to_unit_norm_see_no_change_of_gray(tmp_path: Path) -> None:
    change = np.full((2, 4, 4, 1), 60)
    assert measured(tmp_path, change, "unit")[DISTANCE] == pytest.approx([0, 0], abs=1e-6)


def test_examples_are_the_first_of_every_class() -> None:
    labels = np.array([1, 1, 0, 2, 0, 1, 0])
    assert first_of_classes(labels).tolist() == [2, 0, 3, 4, 1]
    assert torch.as_tensor(labels)[first_of_classes(labels)].tolist() == [0, 1, 2, 0, 1]


def test_examples_are_stored(tmp_path: Path) -> None:
    assert measured(tmp_path, np.zeros((6, 4, 4, 1), np.int64))["examples"].tolist() == [0, 1, 0, 1]
