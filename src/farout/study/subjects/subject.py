"""Base of subjects: one detector under test, which any process can open."""

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
"""Function that returns one detector's scores of a batch."""


Score = Callable[[Tensor], list[Ask]]
"""Function that runs the shared forward pass over a batch, and returns one `Ask` per detector."""


class Subject(ABC):
    """One detector under test, which any process can open."""

    label: str
    network: str
    """Label of the network that it reads; empty if it has its own."""
    portable: bool

    @property
    def title(self) -> str:
        """Label of the detector and of its network."""
        return f"{self.label} on {self.network}" if self.network else self.label

    @abstractmethod
    def identity(self) -> Any:
        """Return everything that its scores depend on, as JSON."""

    @property
    @abstractmethod
    def group(self) -> str:
        """Key of the subjects that share one forward pass."""

    @property
    def shares(self) -> bool:
        """True if it shares its forward pass with the other subjects of the same network."""
        return False

    @property
    def requires(self) -> tuple[Cell, ...]:
        """Cells that must be present before it can score."""
        return ()

    @property
    def learns(self) -> Mapping[str, ImageSource]:
        """Images that it is fitted on, by split (train, val, outliers, auxiliary_outliers); empty if it was fitted
        before the study."""
        return {}

    @property
    def extra_data(self) -> str:
        """Names of the outlier sets that it learns from; empty if it learns from inliers only."""
        sets = [images for split, images in self.learns.items() if split not in ("train", "val")]
        return ", ".join(images.about.name for images in sets)

    def fitted_on(self, part: Part) -> Subject:
        """Return the same detector fitted on a part of the inliers. Raise if it was fitted before the study."""
        raise ValueError(
            f"{self.label} is already fitted, and cannot be fitted again on single classes; name it in a study file"
        )

    def stays(self, store: Store) -> bool:
        """Return True if one process must do all its work, since its fitted state cannot be stored."""
        return False

    def check(self) -> None:  # noqa: B027
        """Raise if it is known before any work that fitting will fail."""

    def notes(self, inliers: ImageSource, outliers: Mapping[str, ImageSource]) -> list[str]:
        """Return caveats that a reader of results on these images must know."""
        return []

    @property
    def classifier(self) -> NetworkSource | None:
        """Network that it reads; None if unknown."""
        return None

    @abstractmethod
    def open(self, together: list[Any], store: Store, device: torch.device) -> Score:
        """Return a function that scores a batch for all these subjects of the group in one pass."""

    @abstractmethod
    def target(self, store: Store, device: torch.device) -> Target:
        """Return the detector with its network as the target of an attack."""
