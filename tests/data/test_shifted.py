"""A shifted set: what its images are, and what its fingerprint depends on."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

import farout
from farout.core import ImageSet, Params, Shift
from farout.data.shifted import Shifted


def pictures(seed: int = 0, name: str = "pictures") -> ImageSet:
    rng = np.random.default_rng(seed)
    return ImageSet.from_arrays(rng.integers(0, 256, (150, 32, 32, 3), np.uint8), np.arange(150) % 4, name)


@dataclasses.dataclass(kw_only=True)
class Brighter(Shift):
    """Every image gets brighter by a number of its own."""

    name = "brighter"
    most: float

    def sample(self, shape: tuple[int, ...], rng: torch.Generator) -> Params:
        return {"by": torch.rand((), generator=rng)}

    def apply(self, images: Tensor, params: Params) -> Tensor:
        return images.add(self.most * params["by"][:, None, None, None]).clamp_(max=1)


SHIFTS = [
    farout.shift("gaussian_noise", severity=3),
    farout.shift("glass_blur", severity=2),
    farout.shift("contrast", severity=5),
    Brighter(most=0.5),
]


@pytest.mark.parametrize("shift", SHIFTS, ids=lambda shift: shift.name)
def test_an_image_depends_on_its_place_and_the_seed_alone(shift: Shift) -> None:
    parent = pictures()
    shifted, one_by_one = Shifted(parent, shift, 7), torch.empty(150, 3, 32, 32)
    for place in range(150):
        one_by_one[place] = shift(parent.batch([place]), 7, [place])[0]
    assert torch.equal(shifted.batch(range(150)), one_by_one)
    assert torch.equal(torch.cat(list(shifted)), one_by_one)
    assert torch.equal(shifted.batch([149, 3, 3, 80]), one_by_one[[149, 3, 3, 80]])
    assert torch.equal(shifted.subset([9, 5]).batch([1, 0]), one_by_one[[5, 9]])
    assert shifted.batch([]).shape == (0, 3, 32, 32)
    if shift.random:
        assert not torch.equal(Shifted(parent, shift, 8).batch(range(150)), one_by_one)


def test_places_are_counted_in_the_set_that_is_shifted() -> None:
    parent, shift = pictures(), Brighter(most=0.5)
    of_some = Shifted(parent.subset([20, 30]), shift, 1)
    assert torch.equal(of_some.batch([1]), shift(parent.batch([30]), 1, [1]))
    assert not torch.equal(of_some.batch([1]), Shifted(parent, shift, 1).batch([30]))


def test_the_fingerprint_depends_on_parent_shift_and_seed_only() -> None:
    shift = Brighter(most=0.5)
    known = Shifted(pictures(), shift, 3).fingerprint
    assert Shifted(pictures(name="other"), Brighter(most=0.5), 3, name="mine").fingerprint == known
    others = [
        Shifted(pictures(seed=1), shift, 3),
        Shifted(pictures(), Brighter(most=0.25), 3),
        Shifted(pictures(), shift, 4),
        Shifted(pictures(), farout.shift("contrast", severity=1), 3),
        Shifted(pictures(), farout.shift("contrast", severity=2), 3),
        Shifted(pictures().subset(range(149)), shift, 3),
        pictures(),
    ]
    assert len({known, *(other.fingerprint for other in others)}) == 1 + len(others)


def test_what_is_known_of_the_images_stays() -> None:
    parent = farout.load("shapes", limit=20)
    shifted = Shifted(parent, farout.shift("contrast", severity=4))
    assert (len(shifted), shifted.shape, shifted.classes) == (20, parent.shape, parent.classes)
    assert shifted.labels is not None
    assert parent.labels is not None
    assert shifted.labels.tolist() == parent.labels.tolist()
    assert shifted.attributes["hue"].tolist() == parent.attributes["hue"].tolist()
    assert shifted.name == "shapes, contrast 4"
    assert Shifted(parent, SHIFTS[0], name="noisy").name == "noisy"
