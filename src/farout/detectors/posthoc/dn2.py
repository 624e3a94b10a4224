"""`dn2`: mean distance to the nearest training features, of any layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from torch import Tensor

from farout.checks import check_choice, check_count
from farout.core import Activations
from farout.detectors.bases.nearest import Nearest
from farout.detectors.catalog import register
from farout.detectors.math.neighbors import Bank
from farout.registry import unknown


@register
@dataclass(kw_only=True)
class DN2(Nearest):
    """Mean Euclidean distance to the k = 2 nearest training features, not normalized (Bergman et al. 2020).

    A one-class detector: the whole training split is one class, and labels are not used. The features are those of
    the panel's network; the paper's is pretrained on other images. OpenOOD has no such detector. search: as for knn.

    layer: None for the penultimate features, else a block of the network (Khazaie et al. 2022, Table 5): its name, or
        its number from 1 in `network.block_names`, where a stem may come first.
    places: the layer's output averaged over all positions ("mean"), which for the last stage of a ResNet gives the
        penultimate features, or over each of 4×4 fields, concatenated ("grid").
    """

    name = "dn2"
    unit: ClassVar[bool] = False
    k: int = 2
    """Number of neighbors whose distances are averaged."""
    layer: int | str | None = None
    places: Literal["mean", "grid"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer is not None and not isinstance(self.layer, str):
            check_count("layer, unless it is a name,", self.layer)
        check_choice("places", self.places, ("mean", "grid"))
        if self.layer is None and self.places != "mean":
            raise ValueError(f"{self.name}: places={self.places!r} says how a layer is read: give layer= too")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"features" if self.layer is None else f"{self.places}s"})

    def check_network(self, activations: Activations) -> None:
        self.read(activations)

    def read(self, activations: Activations) -> Activations:
        """Return the activations with the layer's output as features."""
        if self.layer is None:
            return activations
        outputs = activations.means if self.places == "mean" else activations.grids
        blocks = list(outputs)
        if not blocks:
            (kind,) = self.needs
            raise ValueError(f"{self.name} with layer={self.layer!r} reads the blocks' {kind}: needs={{{kind!r}}}")
        if isinstance(self.layer, str) and self.layer not in blocks:
            raise unknown(f"layer of this network for {self.name}:", self.layer, blocks)
        if isinstance(self.layer, int) and self.layer > len(blocks):
            raise ValueError(
                f"{self.name}: layer={self.layer}, and the network has {len(blocks)} blocks: {', '.join(blocks)}"
            )
        name = self.layer if isinstance(self.layer, str) else blocks[self.layer - 1]
        return replace(activations, features=outputs[name])

    def distance(self, bank: Bank, features: Tensor) -> Tensor:
        return bank.nearest(features, 0, self.k).mean(1)
