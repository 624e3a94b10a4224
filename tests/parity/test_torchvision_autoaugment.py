"""AutoAugment's operations and policy beside torchvision's, to the byte on Pillow images; on real images too."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import farout
from farout.shifts.autoaugment import POLICY
from farout.shifts.kernels.levels import to_bytes
from farout.shifts.kernels.pillow_operations import BINS, OPERATIONS, SIGNED, magnitude

if importlib.util.find_spec("torchvision") is None:
    pytest.skip("torchvision is not installed", allow_module_level=True)

Levels = NDArray[np.uint8]
THEIRS = {name: name.title().replace("_", "") for name in OPERATIONS}
EXACT = ("translate_x", "translate_y", "brightness", "posterize", "solarize", "equalize", "invert")
"""Operations that torchvision's tensors get the same bytes from as its Pillow images."""
MOVED = ("shear_x", "shear_y", "rotate")
"""Operations whose nearest pixel torchvision's tensors decide in float32, Pillow in 1/65536 px: ties differ."""


@pytest.fixture(scope="module")
def package() -> Any:
    from farout.optional import mend_torchvision

    mend_torchvision()
    return importlib.import_module("torchvision.transforms.autoaugment")


def drawn_images() -> list[Levels]:
    rng = np.random.default_rng(0)
    sizes = [(32, 32, 3), (64, 48, 3), (331, 200, 3), (28, 28)]
    y, x = np.mgrid[:32, :32]
    smooth = np.stack([(3 * x + k * y) % 200 + 20 for k in range(3)], -1).astype(np.uint8)
    return [*(rng.integers(0, 256, size, dtype=np.uint8) for size in sizes), smooth, np.full((32, 32, 3), 77, np.uint8)]


def compare(package: Any, name: str, levels: Levels) -> tuple[int, NDArray[np.int_]]:
    """Count the bytes that differ from torchvision's on Pillow images; differences from its tensors' bytes."""
    height, width = levels.shape[:2]
    values, signed = package.AutoAugment(package.AutoAugmentPolicy.CIFAR10)._augmentation_space(BINS, (height, width))[
        THEIRS[name]
    ]
    assert signed == (name in SIGNED)
    image, tensor = Image.fromarray(levels), torch.from_numpy(levels.reshape(height, width, -1)).permute(2, 0, 1)
    nearest, wrong, off = package.InterpolationMode.NEAREST, 0, []
    for bin_ in range(BINS if values.ndim else 1):
        for sign in (1, -1) if signed else (1,):
            value = sign * float(values[bin_] if values.ndim else 0)
            ours = np.asarray(OPERATIONS[name](image, sign * magnitude(name, bin_, height, width)))
            expected = package._apply_op(image, THEIRS[name], value, nearest, None)
            others = package._apply_op(tensor, THEIRS[name], value, nearest, None).permute(1, 2, 0).numpy()
            wrong += int((ours != np.asarray(expected)).sum())
            off.append(others.reshape(levels.shape).astype(int) - ours)
    return wrong, np.stack(off)


def check(package: Any, name: str, images: list[Levels]) -> None:
    for levels in images:
        wrong, off = compare(package, name, levels)
        assert wrong == 0
        if name in EXACT:
            assert not off.any()
        elif name in MOVED:
            assert (off != 0).mean() < 0.02
        else:
            assert abs(off).max() <= 2


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_at_every_magnitude(package: Any, name: str) -> None:
    check(package, name, drawn_images())


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_on_real_images(package: Any, name: str, real_data: Path) -> None:
    images = farout.load(real_data / "cifar10_test.npz", limit=100)
    check(package, name, list(to_bytes(images.batch(np.arange(100)))))


def test_the_policy(package: Any) -> None:
    theirs = package.AutoAugment(package.AutoAugmentPolicy.CIFAR10).policies
    ours = [tuple((THEIRS[step.name], step.probability, step.bin) for step in pair) for pair in POLICY]
    assert ours == [tuple((name, chance, bin_ or 0) for name, chance, bin_ in pair) for pair in theirs]


def test_the_shift_with_the_same_draws(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    augment, shift = package.AutoAugment(package.AutoAugmentPolicy.CIFAR10), farout.shift("autoaugment_cifar")
    levels, rng = drawn_images()[0], torch.Generator().manual_seed(0)
    image = torch.from_numpy(levels).permute(2, 0, 1)[None].div(255)
    for _ in range(300):
        params = shift.sample((3, 32, 32), rng)
        theirs = int(params["policy"]), params["chance"], (~params["negative"]).int()
        monkeypatch.setattr(augment, "get_params", lambda _, drawn=theirs: drawn)
        found = shift.apply(image, {key: value[None] for key, value in params.items()})
        np.testing.assert_array_equal(to_bytes(found)[0], np.asarray(augment(Image.fromarray(levels))))
