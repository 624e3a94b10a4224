"""Readers of the file formats of CIFAR, SVHN, MNIST and CelebA."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_CIFAR_SHAPE = (3, 32, 32)


def parse_cifar_records(data: bytes, label_bytes: int, what: str) -> tuple[Bytes, Bytes]:
    """Return images [N, 32, 32, 3] and labels [N, label_bytes] of CIFAR's binary records: labels, then R, G, B."""
    length = label_bytes + math.prod(_CIFAR_SHAPE)
    if not data or len(data) % length:
        raise ValueError(f"{what}: expected records of {length:,} bytes, got {len(data):,} bytes")
    records = np.frombuffer(data, np.uint8).reshape(-1, length)
    images = records[:, label_bytes:].reshape(-1, *_CIFAR_SHAPE)
    return images.transpose(0, 2, 3, 1), records[:, :label_bytes]


def read_svhn(path: Path) -> tuple[Bytes, NDArray[np.int64]]:
    """Return images [N, 32, 32, 3] and digits of an SVHN .mat file, which stores the digit 0 as 10."""
    from scipy.io import loadmat

    content = loadmat(path, variable_names=["X", "y"])
    if not {"X", "y"} <= content.keys():
        raise ValueError(f"{path}: expected the arrays X and y, got {', '.join(sorted(content))}")
    return content["X"].transpose(3, 0, 1, 2), content["y"].reshape(-1).astype(np.int64) % 10


def read_idx(path: Path) -> Bytes:
    """Return the array of a gzipped idx file: two zeros, type (8 = uint8), number of axes, their lengths, data."""
    with gzip.open(path) as file:
        data = file.read()
    axes = data[3] if len(data) > 3 else 0
    if data[:3] != b"\0\0\x08" or len(data) < 4 + 4 * axes:
        raise ValueError(
            f"{path}: expected an idx file of bytes (starts 00 00 08), got one that starts {data[:4].hex(' ')}"
        )
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", axes, 4))
    if len(data) != 4 + 4 * axes + math.prod(shape):
        raise ValueError(
            f"{path}: expected {math.prod(shape):,} values for shape {list(shape)}, got {len(data) - 4 - 4 * axes:,}"
        )
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def read_table(path: Path, header: int = 0) -> list[list[str]]:
    """Return the rows of a text table after `header` lines, split at white space."""
    return [line.split() for line in path.read_text("utf-8").splitlines()[header:] if line.strip()]
