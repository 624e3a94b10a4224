"""Photographs of frost, read from a folder."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farout.identity import digest, digest_arrays
from farout.shifts.kernels.resample import interpolate
from farout.shifts.textures.frost_sheets import Sheets


@dataclasses.dataclass(frozen=True)
class Photographs:
    """Photographs, sorted and compared by their content."""

    pixels: tuple[NDArray[np.uint8], ...] = dataclasses.field(compare=False, repr=False)  # [3, H, W] each
    digest: str
    """Hash of their content."""


def read_photographs(folder: str | Path) -> Photographs:
    """Read all images in a folder, at least one; cached until the files change."""
    from farout.data.pixels import SUFFIXES  # not above: farout.data imports the shifts

    if not Path(folder).is_dir():
        raise FileNotFoundError(
            f"frost_dir: there is no folder {str(folder)!r}; expected one with photographs of frost, or None"
        )
    files = sorted(file for file in Path(folder).iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        raise ValueError(
            f"frost_dir: {str(folder)!r} has no images; expected photographs of frost in files ending in "
            f"{', '.join(sorted(SUFFIXES))}"
        )
    return _decode(tuple((file.absolute(), file.stat().st_size, file.stat().st_mtime_ns) for file in files))


@functools.lru_cache(maxsize=2)
def _decode(files: tuple[tuple[Path, int, int], ...]) -> Photographs:
    from farout.data.pixels import decode  # not above: farout.data imports the shifts

    pixels = [decode(file, None, 3) for file, _, _ in files]
    found = sorted(((digest_arrays([("pixels", array)]), array) for array in pixels), key=lambda pair: pair[0])
    return Photographs(tuple(array for _, array in found), digest([name for name, _ in found]))


@functools.lru_cache(maxsize=4)
def scale_photographs(photographs: Photographs, scale: float) -> Sheets:
    """Scale the photographs by linear interpolation without smoothing, as OpenCV does."""
    parts = [_scale(pixels, scale) for pixels in photographs.pixels]
    sizes = torch.tensor([part.shape[1:] for part in parts])
    levels = torch.zeros(len(parts), 3, *sizes.amax(0).tolist())
    for sheet, part in zip(levels, parts, strict=True):
        sheet[:, : part.shape[1], : part.shape[2]] = part
    return Sheets(levels, sizes, torch.arange(1, len(parts) + 1) / len(parts), torch.zeros(len(parts)))


def _scale(pixels: NDArray[Any], scale: float) -> torch.Tensor:
    """Return the scaled photograph [3, H, W], rounded to integers."""
    rows, columns = ((np.arange(round(side * scale)) + 0.5) / scale - 0.5 for side in pixels.shape[1:])
    return interpolate(torch.from_numpy(pixels.astype(np.float32)), rows, columns).round_()


def check_covers(photographs: Photographs, height: int, width: int, scale: float) -> None:
    """Raise an error if a photograph is too small for images of this size."""
    for pixels in photographs.pixels:
        rows, columns = pixels.shape[1:]
        if round(rows * scale) < height or round(columns * scale) < width:
            raise ValueError(
                f"frost_dir: a photograph of {rows} × {columns} pixels, scaled by {scale:g}, does not cover images of "
                f"{height} × {width}; expected at least {_needed(height, scale)} × {_needed(width, scale)} pixels"
            )


def _needed(side: int, scale: float) -> int:
    """Return the smallest side that is at least this one after scaling."""
    return next(n for n in itertools.count(int(side / scale) - 2) if round(n * scale) >= side)
