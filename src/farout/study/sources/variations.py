"""Variations that a run must compute first: the latent of a generator that is trained in the study."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor

from farout.study.sources.generators import GeneratorSource
from farout.study.sources.pending import NotComputed
from farout.variations.latent import Latent
from farout.variations.variation import Variation

if TYPE_CHECKING:
    from farout.study.cells.cell import Cell
    from farout.study.store import Store


@dataclasses.dataclass(frozen=True)
class TrainedLatent(Variation):
    """Latent of a generator whose weights are in the store."""

    source: GeneratorSource
    name = Latent.name
    domain = Latent.domain
    conditional = False

    @cached_property
    def dim(self) -> int:
        return self.source.preview().dim

    def decode(self, z: Tensor, base: None = None) -> Tensor:
        raise NotComputed(f"{self.source.label}: the run has not trained this generator yet")

    def identity(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "generator": self.source.identity()}


def opened(variation: Variation, store: Store) -> Variation:
    """Return the variation ready to decode: a generator that the run has trained is read from the store."""
    return Latent(generator=variation.source.build(store)) if isinstance(variation, TrainedLatent) else variation


def required_cells(variation: Variation) -> tuple[Cell, ...]:
    """Return the cells that must be present before the variation can be opened."""
    return variation.source.requires if isinstance(variation, TrainedLatent) else ()


def is_portable(variation: Variation) -> bool:
    """Return True if the variation can be opened in another process; whether it can be sent is not tested."""
    return not isinstance(variation, TrainedLatent) or variation.source.portable
