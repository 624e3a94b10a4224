"""From an image file to 8-bit pixels."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from farout.files import sha256

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff"})
"""File names that count as images, in any case."""

MOST_PIXELS = 89_478_485
"""Of one image: a few kilobytes of a file can stand for gigabytes in memory."""
_ORIENTATION = 0x0112
_MODES = {1: "L", 3: "RGB"}


class Unreadable(ValueError):
    """An image file that is damaged, or of a kind we do not read."""


def decode(path: Path, side: int | None, channels: int, crop: int | None = None) -> NDArray[np.uint8]:
    """Return the image as uint8 [C, H, W].

    Turned upright as its EXIF tag says; 16-bit values are scaled to 8 bits; transparent parts become white; other
    color spaces become RGB (channels=3) or gray (channels=1, ITU-R 601 weights). With `crop`, so many pixels in either
    direction are cut out of the middle. With `side`, the shorter side of what is left is resized to it (anti-aliased
    bilinear) and the middle cut out. Of an animation the first frame counts.
    """
    try:
        with Image.open(path) as image:
            plain = _plain(image, channels)
    except FileNotFoundError:
        raise
    except _DAMAGE as error:
        raise Unreadable(f"{path}: {_reason(error)}") from error
    if crop is not None:
        plain = _middle(plain, crop, path)
    return _fitted(plain, side, channels)


def from_pil(image: Image.Image, side: int | None, channels: int) -> NDArray[np.uint8]:
    """A Pillow image as uint8 [C, H, W], read as `decode` reads a file."""
    return _fitted(_plain(image, channels), side, channels)


def _fitted(plain: Image.Image, side: int | None, channels: int) -> NDArray[np.uint8]:
    if side is not None and plain.size != (side, side):
        plain = ImageOps.fit(plain, (side, side), Image.Resampling.BILINEAR)
    array = np.asarray(plain)
    return array[None] if channels == 1 else array.transpose(2, 0, 1)


def _middle(image: Image.Image, crop: int, path: Path) -> Image.Image:
    """Return the middle of an image; where as many pixels cannot go on either side, one more goes at the far end."""
    width, height = image.size
    if min(width, height) < crop:
        raise Unreadable(f"{path}: crop={crop} needs at least as many pixels, the image has {width}×{height}")
    left, top = (width - crop) // 2, (height - crop) // 2
    return image.crop((left, top, left + crop, top + crop))


def probe(path: Path) -> tuple[bytes, int, int]:
    """Hash of the file's bytes, and the upright image's width and height; decodes it to see that it is whole."""
    try:
        with Image.open(path) as image:
            width, height = image.size
            if image.getexif().get(_ORIENTATION, 1) >= 5:
                width, height = height, width
            image.draft("RGB", (1, 1))  # JPEG: all data is read, but decoded at an eighth of the size
            _plain(image, 3)
    except _DAMAGE as error:
        raise Unreadable(_reason(error)) from error
    return bytes.fromhex(sha256(path.resolve())), width, height


_DAMAGE = (
    OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, struct.error, zlib.error, MemoryError,
    Image.DecompressionBombError, Image.DecompressionBombWarning,
)  # fmt: skip
"""What Pillow raises on damaged files."""


def _reason(error: Exception) -> str:
    return "not an image of a kind we read" if isinstance(error, UnidentifiedImageError) else str(error)


def _plain(image: Image.Image, channels: int) -> Image.Image:
    """Upright, 8 bits, no alpha, gray or RGB."""
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise ValueError(f"has {width} × {height} pixels, and {MOST_PIXELS:,} are the most; save it smaller")
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        image = _from_16_bit(image)
    if image.mode == "F":
        raise ValueError("has float pixels, whose range is not known; save it with 8 or 16 bits")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert(_MODES[channels])


def _from_16_bit(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError(f"has integer pixels from {values.min()} to {values.max()}; save it with 8 or 16 bits")
    return Image.fromarray(np.rint(values / 257).astype(np.uint8))
