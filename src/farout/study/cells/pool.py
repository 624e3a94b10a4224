"""Pool of generators: their samples in turn, with the mutual information that an ensemble assigns to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.data.arrays import as_floats
from farout.generators import Generator
from farout.generators.information import mutual_information
from farout.networks import Network
from farout.networks.passes import forward
from farout.rng import seed_of
from farout.study.cells.cell import Arrays, Cell
from farout.study.cells.generate import PIXELS, draw
from farout.study.sources.generators import GeneratorSource
from farout.study.sources.networks import NetworkSource
from farout.study.store import Store

MI, LAMBDA = "mi", "lambda_s"
"""Attributes: mutual information of an image, in nats, and λs of its generator."""


@dataclass(frozen=True)
class Pool:
    """Generators trained with different λs, whose samples are pooled, and the ensemble that measures their MI."""

    generators: tuple[GeneratorSource, ...]
    lambdas: tuple[float, ...]
    ensemble: NetworkSource

    def identity(self) -> Any:
        """Return everything that the samples and their MI depend on, apart from seeds."""
        return {
            "generators": [generator.identity() for generator in self.generators],
            "lambdas": list(self.lambdas),
            "ensemble": self.ensemble.identity(),
        }

    @property
    def portable(self) -> bool:
        """True if it can be sent to another process."""
        return self.ensemble.portable and all(generator.portable for generator in self.generators)

    @property
    def requires(self) -> tuple[Cell, ...]:
        """Cells that must be present before it can be opened."""
        return (*self.ensemble.requires, *(cell for generator in self.generators for cell in generator.requires))

    def open(self, store: Store, device: torch.device) -> OpenPool:
        """Load the generators and the ensemble."""
        generators = [generator.build(store).to(device) for generator in self.generators]
        return OpenPool(generators, self.lambdas, self.ensemble.build(store).to(device), device)


class OpenPool:
    """Pool whose generators and ensemble are loaded in this process."""

    def __init__(
        self, generators: list[Generator], lambdas: tuple[float, ...], ensemble: Network, device: torch.device
    ) -> None:
        self.generators, self.lambdas, self.ensemble, self.device = generators, lambdas, ensemble, device

    def candidates(self, least: int, seed: int) -> Arrays:
        """Return at least so many samples, one of every generator in turn, with their attributes."""
        each = -(-least // len(self.generators))
        drawn = [draw(one, each, seed_of(seed, "generator", number)) for number, one in enumerate(self.generators)]
        mixed = {name: _interleave([part[name] for part in drawn]) for name in drawn[0]}
        pixels = torch.from_numpy(mixed[PIXELS]).permute(0, 3, 1, 2).numpy()
        return {**mixed, MI: self.information(as_floats(pixels)), LAMBDA: np.tile(self.lambdas, each)}

    def information(self, images: Tensor) -> NDArray[np.float64]:
        """Return the mutual information of images, in nats."""
        members = forward(self.ensemble, images.to(self.device), frozenset({"members"})).members
        assert members is not None
        values: NDArray[np.float64] = mutual_information(members.double()).clamp_min(0).cpu().numpy()
        return values


def _interleave(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the first row of every part, then the second rows, and so on."""
    return np.stack(parts, 1).reshape(-1, *parts[0].shape[1:])
