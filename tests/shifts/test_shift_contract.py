"""What every shift promises: bytes that depend on seed and index alone, 8-bit values, clear errors."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

import farout
from farout.core import Params, Shift
from farout.identity import digest
from farout.registry import UnknownName
from farout.shifts.tables import TABLES

NAMES = sorted(TABLES)
RANDOM = [name for name in NAMES if farout.shift(name, severity=1).random]


def pictures(count: int, *shape: int) -> Tensor:
    rng = torch.Generator().manual_seed(9)
    return torch.randint(0, 256, (count, *shape), generator=rng).div(255)


def test_all_have_a_name() -> None:
    assert len(NAMES) == 19
    assert set(NAMES) <= set(farout.shifts.names())
    assert farout.shift is farout.shifts.shift
    assert all(farout.shift(name, severity=2).name == name for name in NAMES)
    still = {"brightness", "contrast", "defocus_blur", "gaussian_blur", "jpeg", "pixelate", "saturate", "zoom_blur"}
    assert set(RANDOM) == set(NAMES) - still


@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 33, 29), (1, 28, 28), (3, 50, 67)])
@pytest.mark.parametrize("severity", [3, 5])
@pytest.mark.parametrize("name", NAMES)
def test_an_image_gets_the_same_bytes_in_any_batch(name: str, severity: int, shape: tuple[int, ...]) -> None:
    shift, images = farout.shift(name, severity=severity), pictures(64, *shape)
    whole = shift(images, seed=4)
    for size in (1, 7):
        parts = [shift(images[i : i + size], seed=4, indices=range(i, min(i + size, 64))) for i in range(0, 64, size)]
        assert torch.equal(torch.cat(parts), whole)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(shift(images[order], seed=4, indices=order.tolist()), whole[order])
    assert torch.equal(shift(images, seed=4, indices=np.arange(64)), whole)


@pytest.mark.parametrize("name", NAMES)
def test_large_images_get_the_same_bytes_in_any_batch(name: str) -> None:
    for severity in (2, 4):
        shift, images = farout.shift(name, severity=severity), pictures(3, 3, 224, 224)
        whole = shift(images)
        assert torch.equal(shift(images[2:], indices=[2]), whole[2:])


@pytest.mark.parametrize("name", NAMES)
def test_layout_precision_and_threads_change_nothing(name: str) -> None:
    shift, images = farout.shift(name, severity=5), pictures(20, 3, 40, 36)
    whole = shift(images)
    assert torch.equal(shift(images.to(memory_format=torch.channels_last)), whole)
    assert torch.equal(shift(images.double().numpy()), whole)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert torch.equal(shift(images), whole)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("name", NAMES)
def test_values_are_8_bit_and_the_input_is_left_alone(name: str, severity: int) -> None:
    images = pictures(5, 3, 32, 32)
    before = images.clone()
    shifted = farout.shift(name, severity=severity)(images)
    assert shifted.dtype == torch.float32
    assert torch.equal(shifted, shifted.mul(255).round().clamp(0, 255).div(255))
    assert torch.equal(images, before)
    assert not torch.equal(shifted, images)


@pytest.mark.parametrize("name", NAMES)
def test_images_are_read_to_the_nearest_8_bit_value(name: str) -> None:
    shift, images = farout.shift(name, severity=3), pictures(3, 3, 32, 32)
    between = images + torch.empty_like(images).uniform_(-0.4, 0.4, generator=torch.Generator().manual_seed(0)) / 255
    assert torch.equal(shift(between.clamp(0, 1)), shift(images))


@pytest.mark.parametrize("name", RANDOM)
def test_seed_index_severity_and_name_draw_anew(name: str) -> None:
    flat = pictures(1, 3, 32, 32).expand(3, -1, -1, -1)
    shift = farout.shift(name, severity=2)
    shifted = shift(flat, seed=0)
    assert torch.equal(shift(flat, seed=0), shifted)
    assert not torch.equal(shifted[0], shifted[1])
    assert not torch.equal(shift(flat, seed=1)[0], shifted[0])
    assert torch.equal(shift(flat[:1], indices=[2])[0], shifted[2])


def test_two_kinds_of_noise_share_no_draws() -> None:
    gray = torch.full((1, 1, 32, 32), 0.5)
    draws = [
        farout.shift(name, severity=severity)(gray).sub(0.5).flatten().numpy()
        for name in ("gaussian_noise", "speckle_noise")
        for severity in (4, 5)
    ]
    correlations = np.corrcoef(draws)[~np.eye(4, dtype=bool)]
    assert np.abs(correlations).max() < 4.5 / 32


@pytest.mark.parametrize("name", NAMES)
def test_no_global_generator_is_read_or_changed(name: str) -> None:
    images, shift = pictures(3, 3, 32, 32), farout.shift(name, severity=2)
    first = shift(images)
    torch.manual_seed(123)
    np.random.seed(123)  # noqa: NPY002
    random.seed(123)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(shift(images), first)
    after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(0, 3, 32, 32), (2, 1, 1, 1), (2, 3, 2, 5)])
def test_empty_batches_and_tiny_images(name: str, shape: tuple[int, ...]) -> None:
    for severity in range(1, 6):
        assert farout.shift(name, severity=severity)(torch.full(shape, 0.5)).shape == shape


def test_bad_images() -> None:
    shift = farout.shift("contrast", severity=1)
    with pytest.raises(
        ValueError, match=r"expected images \[B, C, H, W\] with 1 or 3 channels, got shape \(3, 32, 32\)"
    ):
        shift(torch.rand(3, 32, 32))
    with pytest.raises(ValueError, match=r"got shape \(2, 2, 8, 8\)"):
        shift(torch.rand(2, 2, 8, 8))
    with pytest.raises(ValueError, match=r"expected images in \[0, 1\], got 192 NaN"):
        shift(torch.full((1, 3, 8, 8), torch.nan))
    with pytest.raises(ValueError, match="got values from 0 to 255"):
        shift(torch.tensor([0.0, 255.0]).view(2, 1, 1, 1))
    with pytest.raises(TypeError, match="divide 8-bit images by 255"):
        shift(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(ValueError, match="got 3 indices for 2 images, expected one each"):
        shift(torch.zeros(2, 3, 8, 8), indices=[0, 1, 2])


@pytest.mark.parametrize("severity", [0, 6, -1, 2.5, 3.0, "3", None, True])
def test_bad_severity(severity: object) -> None:
    with pytest.raises(ValueError, match=f"severity of contrast must be a whole number from 1 to 5, got {severity!r}"):
        farout.shift("contrast", severity=severity)


def test_bad_names() -> None:
    with pytest.raises(UnknownName, match=r"unknown shift 'contrats'\. Did you mean 'contrast'\?"):
        farout.shift("contrats", severity=1)
    with pytest.raises(UnknownName, match=r"Did you mean 'severity'\?"):
        farout.shift("contrast", severety=1)


def test_identity() -> None:
    shift = farout.shift("spatter", severity=np.int64(4))
    assert shift.identity() == {"name": "spatter", "version": 1, "severity": 4}
    assert type(shift.identity()["severity"]) is int
    shifts = [farout.shift(name, severity=severity) for name in NAMES for severity in range(1, 6)]
    assert len({digest(shift.identity()) for shift in shifts}) == 95
    assert repr(shift) == "Spatter(severity=4)"


@dataclasses.dataclass(kw_only=True)
class Darker(Shift):
    """A shift as users write them."""

    name = "darker"
    most: float = 0.5

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        return {"by": torch.rand(1, 1, 1, generator=rng) * self.most}

    def apply(self, images: Tensor, params: Params) -> Tensor:
        return images * (1 - params["by"])


def test_a_users_shift() -> None:
    images = pictures(4, 3, 8, 8)
    darker = Darker(most=0.2)
    factors = darker(images) / images.clamp(min=1e-6)
    spread = factors.amax((1, 2, 3))
    assert len(set(spread.tolist())) == 4
    assert 0.8 <= float(spread.min()) <= float(spread.max()) <= 1
    assert torch.equal(darker(images[2:], indices=[2, 3]), darker(images)[2:])
    identity = darker.identity()
    assert (identity["name"], identity["version"], identity["most"]) == ("darker", 1, 0.2)
    assert "code" in identity


def test_a_users_shift_can_be_known_by_name() -> None:
    farout.register(Darker)
    assert farout.shift("darker", most=0.1) == Darker(most=0.1)


def test_a_shift_that_forgot_to_say_how_it_draws() -> None:
    class Still(Shift):
        def apply(self, images: Tensor, params: Params) -> Tensor:
            return images

    assert Still.name == "Still"
    with pytest.raises(NotImplementedError, match="Still must define sample, or set random = False"):
        Still()(pictures(1, 3, 4, 4))
