"""AutoAugment's operations on one 8-bit Pillow image, as torchvision calls them, and their magnitudes in ten bins.

Pixels that come in from outside are black, and nothing is interpolated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from PIL import Image, ImageEnhance, ImageOps

BINS = 10
"""Magnitudes of each operation: bin 0 is the weakest (of posterize and solarize: no change, or nearly none)."""
SIGNED = frozenset(
    ("shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "color", "contrast", "sharpness")
)
"""Operations whose magnitude is negative as often as positive."""
REACH = 150 / 331
"""The longest translation as a fraction of the side: the paper's 150 of 331 px."""

Operation = Callable[[Image.Image, float], Image.Image]


@lru_cache(maxsize=4096)
def magnitude(name: str, bin_: int, height: int, width: int) -> float:
    """Return the magnitude of an operation in a bin, without a sign, for images of this size."""
    if name == "posterize":
        return 8 - round(4 * bin_ / (BINS - 1))
    if name == "solarize":
        return _spaced(255, 0, bin_)
    if name.startswith("translate"):
        return int(_spaced(0, REACH * (width if name == "translate_x" else height), bin_))
    most = {"shear_x": 0.3, "shear_y": 0.3, "rotate": 30.0, "auto_contrast": 0.0, "equalize": 0.0, "invert": 0.0}
    return _spaced(0, most.get(name, 0.9), bin_)


def _spaced(first: float, last: float, bin_: int) -> float:
    """Return a bin's value in float32, so that thresholds and whole pixels fall as torchvision's do."""
    return float(torch.linspace(first, last, BINS)[bin_])


def _mapped(image: Image.Image, *inverse: float) -> Image.Image:
    """Return the image whose pixel (x, y) is the one at (ax + by + c, dx + ey + f)."""
    return image.transform(image.size, Image.Transform.AFFINE, inverse, Image.Resampling.NEAREST, fillcolor=0)


OPERATIONS: dict[str, Operation] = {
    "shear_x": lambda image, by: _mapped(image, 1, by, 0, 0, 1, 0),
    "shear_y": lambda image, by: _mapped(image, 1, 0, 0, by, 1, 0),
    "translate_x": lambda image, by: _mapped(image, 1, 0, -by, 0, 1, 0),
    "translate_y": lambda image, by: _mapped(image, 1, 0, 0, 0, 1, -by),
    "rotate": lambda image, degrees: image.rotate(degrees, Image.Resampling.NEAREST, fillcolor=0),
    "brightness": lambda image, by: ImageEnhance.Brightness(image).enhance(1 + by),
    "color": lambda image, by: ImageEnhance.Color(image).enhance(1 + by),
    "contrast": lambda image, by: ImageEnhance.Contrast(image).enhance(1 + by),
    "sharpness": lambda image, by: ImageEnhance.Sharpness(image).enhance(1 + by),
    "posterize": lambda image, bits: ImageOps.posterize(image, int(bits)),
    "solarize": lambda image, threshold: ImageOps.solarize(image, threshold),  # type: ignore[arg-type]
    "auto_contrast": lambda image, _: ImageOps.autocontrast(image),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "invert": lambda image, _: ImageOps.invert(image),
}
"""Operations by name: the image and a signed magnitude give an image. Rotation is counter-clockwise."""
