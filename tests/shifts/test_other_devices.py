"""On another device than the CPU, with float64 or without, every shift gives the same bytes and leaves them there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import farout
from farout.core import Shift
from farout.shifts.tables import TABLES
from helpers.pretend_device import CPU, DEVICE, Away, PretendDevice

AUGMENTATIONS = ["rot90", "rot270", "flip", "random_crop", "color_jitter", "autoaugment_cifar"]
SHIFTS = [farout.shift(name, severity=severity) for name in TABLES for severity in (1, 5)]
SHIFTS += [*map(farout.shift, AUGMENTATIONS), farout.shift("random_crop", padding="zeros")]


def pictures(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(2)).div(255)


def test_no_shift_is_left_out() -> None:
    assert {type(shift).__name__ for shift in SHIFTS} == {name for name in farout.shifts.__all__ if name[0].isupper()}


@pytest.mark.parametrize("float64", [True, False], ids=["float64", "no float64"])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 65, 65)])
@pytest.mark.parametrize("shift", SHIFTS, ids=repr)
def test_the_same_bytes_and_they_stay_there(shift: Shift, shape: tuple[int, ...], float64: bool) -> None:
    images = pictures(3, *shape)
    expected = shift(images, seed=1)
    with PretendDevice(float64):
        shifted = shift(images.to(DEVICE), seed=1)
        assert shifted.device == DEVICE
        assert torch.equal(shifted.cpu(), expected)


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda x: x.numpy(), "numpy sees no tensor"),
        (np.asarray, "numpy sees no tensor"),
        (lambda x: x + torch.ones(4), "of the CPU meet"),
        (lambda x: torch.stack([x, torch.ones(4)]), "of the CPU meet"),
        (lambda x: torch.ones(4).mul_(x), "of the CPU meet"),
        (lambda x: x[torch.arange(2)], "of the CPU meet"),
        (lambda x: x.double(), "no float64"),
        (lambda x: x.sum(dtype=torch.float64), "no float64"),
        (lambda x: torch.ones(4).double().to(x.device), "no float64"),
        (lambda x: torch.arange(4.0, device=x.device, dtype=torch.float64), "no float64"),
    ],
)
def test_what_the_pretend_device_refuses(misuse: Callable[[Tensor], object], message: str) -> None:
    with PretendDevice(float64=False):
        images = torch.ones(4).to(DEVICE)
        with pytest.raises((TypeError, RuntimeError), match=message):
            misuse(images)


def test_what_the_pretend_device_allows() -> None:
    here = torch.arange(4.0)
    with PretendDevice():
        there = here.to(DEVICE)
        there.mul_(2).add_(torch.ones(4, device=there.device))
        assert isinstance(there[1:], Away)
        assert there.double().cpu().numpy().tolist() == [1, 3, 5, 7]
        assert there.to(CPU).device == here.device == CPU
    assert here.tolist() == [0, 1, 2, 3]
