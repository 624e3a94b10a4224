"""Base of the subjects: one detector under test, to be had in any process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.attacks.target import Target
from farout.study.cells.cell import Cell
from farout.study.cells.fit import Part
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.store import Store

Ask = Callable[[], NDArray[np.float64]]
"""Asks one detector for its scores of a batch."""


Score = Callable[[Tensor], list[Ask]]
"""Runs what detectors share over a batch; each can then be asked for its scores."""


class Subject(ABC):
    """One detector under test, to be had anywhere."""

    label: str
    network: str
    """Label of the network it reads; empty where it brings its own."""
    portable: bool

    @property
    def title(self) -> str:
        """Its label and that of its network, for people."""
        return f"{self.label} on {self.network}" if self.network else self.label

    @abstractmethod
    def identity(self) -> Any:
        """What decides its scores, as JSON."""

    @property
    @abstractmethod
    def group(self) -> str:
        """Subjects of one group share one forward pass."""

    @property
    def shares(self) -> bool:
        """Does it share its forward pass with what else reads the same network?"""
        return False

    @property
    def requires(self) -> tuple[Cell, ...]:
        """The cells that must be there before it can score."""
        return ()

    @property
    def learns(self) -> Mapping[str, ImageSource]:
        """The images that it is fitted on by split (train, val, outliers); none where it comes fitted."""
        return {}

    def fitted_on(self, part: Part) -> Subject:
        """The same detector fitted on a part of the inliers; an error where it comes fitted."""
        raise ValueError(f"{self.label} comes fitted, and cannot be fitted on single classes; name it in a study file")

    def stays(self, store: Store) -> bool:
        """Must one process do all its work, since what it has learned cannot be kept?"""
        return False

    def check(self) -> None:  # noqa: B027
        """An error where it can be known beforehand that fitting will fail."""

    def notes(self, inliers: ImageSource, outliers: Mapping[str, ImageSource]) -> list[str]:
        """What people must know of it to read a test on these images right."""
        return []

    @property
    def classifier(self) -> NetworkSource | None:
        """The network it reads, where that is known."""
        return None

    @abstractmethod
    def open(self, together: list[Any], store: Store, device: torch.device) -> Score:
        """A function that scores a batch for all these subjects of the group in one pass."""

    @abstractmethod
    def target(self, store: Store, device: torch.device) -> Target:
        """The detector with its network, to be attacked."""
