"""Encoded images by number, wherever they are stored: files of a folder, members of tar archives, cells of tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from farout.data.stamps import Files
from farout.identity import Json


class Entries(ABC):
    """Encoded images: PNG, JPEG, …, as bytes or files."""

    names: Sequence[str]
    """Name of every image, such as its relative path; part of the set's fingerprint."""
    place: Path
    """Folder or file that errors name."""

    def __len__(self) -> int:
        return len(self.names)

    @abstractmethod
    def read(self, indices: NDArray[np.int64]) -> Sequence[Path | bytes]:
        """Return the encoded images at these indices, or the files that hold them."""

    @abstractmethod
    def where(self, index: int) -> str:
        """Return what an error calls an image: where it is stored."""

    @abstractmethod
    def select(self, indices: NDArray[np.int64]) -> Self:
        """Return the images at these indices."""

    @abstractmethod
    def files(self) -> Files:
        """Return the files that hold the images, with their stamps now."""

    @property
    def key(self) -> Json:
        """Identity of these images among others in the same files."""
        return []


class FileEntries(Entries):
    """One file per image, below `place`."""

    def __init__(self, place: Path, names: Sequence[str]) -> None:
        self.place, self.names = place, tuple(names)

    def read(self, indices: NDArray[np.int64]) -> list[Path]:
        return [self.place / self.names[index] for index in indices.tolist()]

    def where(self, index: int) -> str:
        return str(self.place / self.names[index])

    def select(self, indices: NDArray[np.int64]) -> FileEntries:
        return FileEntries(self.place, [self.names[index] for index in indices.tolist()])

    def files(self) -> Files:
        return Files.at(self.place, self.names)
