"""Atomic writers of 8-bit images to .npy and .npz files, block by block."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.files import atomic_file


def write_npy(path: Path, shape: Sequence[int], blocks: Iterable[bytes]) -> None:
    """Write blocks of 8-bit values as an .npy file of this shape."""
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, _header(shape))
        file.writelines(blocks)


def write_npz(
    path: Path,
    shape: Sequence[int],
    blocks: Iterable[bytes],
    others: Mapping[str, NDArray[Any]],
    compress: bool = False,
) -> None:
    """Write an .npz file with `images` of this shape from blocks of 8-bit values, and other arrays."""
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with atomic_file(path) as temporary, zipfile.ZipFile(temporary, "w", method, compresslevel=1) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, _header(shape))
            file.writelines(blocks)
        for name, values in others.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, values)


def _header(shape: Sequence[int]) -> dict[str, Any]:
    return {"descr": "|u1", "fortran_order": False, "shape": tuple(shape)}
