"""Small files in the formats in which the sets are published."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Serve = Callable[[str, bytes], Path]
"""`serve(key, content)`: from now on `SOURCES[key]` is this content on a local server; its file there."""


def tar(files: Mapping[str, bytes], mode: str = "w:gz") -> bytes:
    """A tar archive of these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def pack_zip(files: Mapping[str, bytes]) -> bytes:
    """A zip archive of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def idx(array: NDArray[np.uint8]) -> bytes:
    """A gzipped idx file."""
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(head + array.tobytes())


def png(value: int | NDArray[np.uint8], side: int = 4) -> bytes:
    """A PNG of these pixels, or of one gray value."""
    pixels = np.full((side, side, 3), value, np.uint8) if isinstance(value, int) else value
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def write(root: Path, files: Mapping[str, bytes]) -> Path:
    """Write these files below `root`."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def random_pixels(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    """Random 8-bit values."""
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
