"""The sets that are drawn on the spot."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from farout.data.procedural import Noise
from farout.data.toy import OUTLIER_SPLITS, SHAPES, SPLITS, Toy

ALL = [*SPLITS, *OUTLIER_SPLITS]
GOLDEN_MEAN = 0.3907
GOLDEN_FINGERPRINT = "b2ceeb83a94895f9c8cd9808214a80976400e4c7"


@pytest.mark.parametrize("split", ALL)
@settings(max_examples=10)
@given(indices=st.lists(st.integers(0, 499), min_size=1, max_size=9))
def test_an_image_does_not_depend_on_its_batch(split: str, indices: list[int]) -> None:
    toy = Toy(split)
    together = toy.draw(np.array(indices))
    alone = np.concatenate([toy.draw(np.array([index])) for index in indices])
    np.testing.assert_array_equal(together, alone)


def test_sizes_labels_and_classes() -> None:
    assert {split: len(Toy(split)) for split in ALL} == {**dict.fromkeys(ALL, 1000), "train": 4000, "val": 500}
    toy = Toy("val")
    assert toy.classes == ("disc", "square", "triangle", "cross")
    assert toy.labels is not None
    assert toy.labels[:6].tolist() == [0, 1, 2, 3, 0, 1]
    assert Toy("test/ood_cls").labels is None


def test_values_are_eight_bit_and_golden() -> None:
    batch = Toy("test").batch(range(8))
    assert torch.equal((batch * 255).round() / 255, batch)
    assert batch.mean().item() == pytest.approx(GOLDEN_MEAN, abs=1e-3)
    assert Toy("test").fingerprint == GOLDEN_FINGERPRINT


@pytest.mark.parametrize(
    ("shape", "area"),
    [
        ("disc", np.pi * 0.64),
        ("square", 1.4**2),
        ("triangle", 3 * np.sqrt(3) * 0.25),
        ("cross", 2 * 1.9 * 0.6 - 0.36),
        ("ring", np.pi * (0.81 - 0.25)),
        ("star", 5 * 0.34**2 * np.tan(np.pi / 5) * (1 + np.tan(np.pi / 5) * np.tan(2 * np.pi / 5))),
    ],
)
def test_areas_of_the_shapes(shape: str, area: float) -> None:
    line = np.linspace(-1.2, 1.2, 600)
    x, y = np.meshgrid(line, line)
    assert (SHAPES[shape](x, y) < 0).mean() * 2.4**2 == pytest.approx(area, rel=0.01)


@pytest.mark.parametrize("split", ALL)
def test_splits_share_no_image(split: str) -> None:
    mine = {image.tobytes() for image in Toy(split).draw(np.arange(100))}
    others = [Toy(other).draw(np.arange(100)) for other in ALL if other != split]
    assert len(mine) == 100
    assert mine.isdisjoint(image.tobytes() for images in others for image in images)


def test_side_and_fingerprint() -> None:
    assert Toy(side=16).shape == (3, 16, 16)
    prints = {Toy(split, side=side).fingerprint for split in ALL for side in (16, 32)}
    assert len(prints) == 2 * len(ALL)
    with pytest.raises(ValueError, match="side must be an integer of at least 8, got 4"):
        Toy(side=4)


def test_noise_is_uniform() -> None:
    noise = Noise(n=200, side=16)
    values = (noise.batch(range(200)) * 255).round().int().flatten()
    counts = torch.bincount(values, minlength=256).double()
    expected = len(values) / 256
    assert ((counts - expected) ** 2 / expected).sum().item() == pytest.approx(255, abs=6 * np.sqrt(2 * 255))
    assert torch.equal(noise.batch([7]), Noise(n=8, side=16).batch([7]))


@pytest.mark.parametrize("options", [{"n": 0}, {"side": 0}, {"channels": 2}, {"side": 3.5}])
def test_bad_noise(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"noise: .* must be"):
        Noise(**options)


def test_no_global_generator_is_touched() -> None:
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # type: ignore[index]  # noqa: NPY002
    Toy("val").batch([3])
    Noise().batch([3])
    assert (before[0] == np.random.get_state()[1]).all()  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(before[1], torch.get_rng_state())
