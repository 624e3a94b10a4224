"""Base class of the common corruptions: five severities, constants by image size, 8-bit results."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral

from torch import Tensor

from farout.core import Params, Shift
from farout.shifts.kernels.levels import truncate
from farout.shifts.tables import Row, constants

SEVERITIES = range(1, 6)


@dataclasses.dataclass(kw_only=True)
class Corruption(Shift):
    """Common corruption of Hendrycks & Dietterich (2019)."""

    severity: int

    def __post_init__(self) -> None:
        if (
            isinstance(self.severity, bool)
            or not isinstance(self.severity, Integral)
            or self.severity not in SEVERITIES
        ):
            raise ValueError(f"severity of {self.name} must be a whole number from 1 to 5, got {self.severity!r}")
        self.severity = int(self.severity)

    def constants(self, shape: Sequence[int]) -> Row:
        """Return the constants of this severity for images of shape [..., H, W]."""
        return constants(self.name, self.severity, min(shape[-2:]))

    def apply(self, images: Tensor, params: Params) -> Tensor:
        return truncate(self.corrupt(images, params, self.constants(images.shape)))

    @abstractmethod
    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        """Return the corrupted images before clipping to [0, 1] and truncation to 8 bits."""
