"""Decode image files to 8-bit pixels."""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from farout.files import sha256

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff"})
"""Suffixes of image files; upper or lower case."""

MOST_PIXELS = 89_478_485
"""Maximum number of pixels of an image: a file of a few kilobytes can decode to gigabytes."""
_READ_AT_ONCE = 1 << 24
_ORIENTATION = 0x0112
_MODES = {1: "L", 3: "RGB"}


class Unreadable(ValueError):
    """Error for an image file that is damaged or of an unknown format."""


def decode(
    source: Path | bytes,
    side: int | None,
    channels: int,
    crop: int | None = None,
    where: Callable[[], str] | None = None,
) -> NDArray[np.uint8]:
    """Return an image, a file or its encoded bytes, as uint8 [C, H, W]; `where` gives its name for errors.

    The image is rotated according to its EXIF tag; 16-bit values are scaled to 8 bits; transparent parts become white;
    other color spaces become RGB (channels=3) or gray (channels=1, ITU-R 601 weights). `crop` cuts a square of that
    many pixels out of the center. `side` then resizes the shorter side to that many pixels (anti-aliased bilinear) and
    cuts out the central square. Of an animation the first frame is used.
    """
    try:
        with Image.open(_openable(source)) as file:
            image = _normalize(file, channels)
        return _resize(image if crop is None else _center_square(image, crop), side, channels)
    except FileNotFoundError:
        raise
    except _READ_ERRORS as error:
        raise Unreadable(f"{where() if where else str(source)}: {_reason(error)}") from error


def from_pil(image: Image.Image, side: int | None, channels: int) -> NDArray[np.uint8]:
    """Return a Pillow image as uint8 [C, H, W], converted as in `decode`."""
    return _resize(_normalize(image, channels), side, channels)


def _resize(image: Image.Image, side: int | None, channels: int) -> NDArray[np.uint8]:
    if side is not None and image.size != (side, side):
        image = ImageOps.fit(image, (side, side), Image.Resampling.BILINEAR)
    array = np.asarray(image)
    return array[None] if channels == 1 else array.transpose(2, 0, 1)


def _openable(source: Path | bytes) -> Path | io.BytesIO:
    """Return what Pillow opens; a small file is read at once, which is faster."""
    if isinstance(source, Path):
        return source if source.stat().st_size > _READ_AT_ONCE else io.BytesIO(source.read_bytes())
    if not source:
        raise ValueError("there are no bytes (an empty entry, or only the path of a file)")
    return io.BytesIO(source)


def _center_square(image: Image.Image, crop: int) -> Image.Image:
    """Return the central square of an image; an odd margin is larger by one at the right and at the bottom."""
    width, height = image.size
    if min(width, height) < crop:
        raise Unreadable(f"crop={crop} needs at least {crop}×{crop} pixels, the image has {width}×{height}")
    left, top = (width - crop) // 2, (height - crop) // 2
    return image.crop((left, top, left + crop, top + crop))


def probe(source: Path | bytes) -> tuple[bytes, int, int]:
    """Return the hash of an image's bytes, and the upright image's width and height; decode it to find damage."""
    try:
        if isinstance(source, Path) and source.stat().st_size <= _READ_AT_ONCE:
            source = source.read_bytes()  # once for both, the pixels and the hash
        with Image.open(_openable(source)) as image:
            width, height = image.size
            if image.getexif().get(_ORIENTATION, 1) >= 5:
                width, height = height, width
            image.draft("RGB", (1, 1))  # JPEG: all data is read, but decoded at an eighth of the size
            _normalize(image, 3)
    except _READ_ERRORS as error:
        raise Unreadable(_reason(error)) from error
    if isinstance(source, Path):
        return bytes.fromhex(sha256(source.resolve())), width, height
    return hashlib.sha256(source).digest(), width, height


_READ_ERRORS = (
    OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, struct.error, zlib.error, MemoryError,
    Image.DecompressionBombError, Image.DecompressionBombWarning,
)  # fmt: skip
"""Exceptions that Pillow raises on damaged files."""


def _reason(error: Exception) -> str:
    return "not an image of a known format" if isinstance(error, UnidentifiedImageError) else str(error)


def _normalize(image: Image.Image, channels: int) -> Image.Image:
    """Return the image upright, with 8 bits, without alpha, as gray or RGB."""
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise ValueError(f"has {width} × {height} pixels, at most {MOST_PIXELS:,} are allowed; save it smaller")
    image.load()
    if image.getexif().get(_ORIENTATION, 1) != 1:  # else it would be copied
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        image = _from_16_bit(image)
    if image.mode == "F":
        raise ValueError("has float pixels of unknown range; save it with 8 or 16 bits")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image if image.mode == _MODES[channels] else image.convert(_MODES[channels])


def _from_16_bit(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError(f"has integer pixels from {values.min()} to {values.max()}; save it with 8 or 16 bits")
    return Image.fromarray(np.rint(values / 257).astype(np.uint8))
