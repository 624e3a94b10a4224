"""Perceptual distance of images over the blocks of a network: "The Raised Bar", eq. 1, and LPIPS."""

from __future__ import annotations

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from farout.core import Activations
from farout.networks.network import Network
from farout.networks.statistics import by_place

Form = Literal["unit", "printed", "lpips"]
EPS = 1e-10
"""Smallest norm that channels are divided by."""


def perceptual_distance(first: Activations, second: Activations, form: str = "unit") -> Tensor:
    """Return the distance of every pair of rows, [N]: the squared difference of feature vectors, averaged over
    positions and summed over channels and blocks.

    form: "unit" divides every feature vector by its norm first, as LPIPS does (Zhang et al. 2018, eq. 1, without the
        learned weights), so that a block adds 2 (1 − cos) ≤ 4; "printed" does not, as eq. 1 of "The Raised Bar".
    """
    total = first.features.new_zeros(len(first), dtype=_precise(first.features))
    for name in first.blocks:
        vectors = [by_place(one.blocks[name]).to(total.dtype) for one in (first, second)]
        if form == "unit":
            vectors = [F.normalize(one, dim=2, eps=EPS) for one in vectors]
        total = total + (vectors[0] - vectors[1]).square().sum(2).mean(1)
    return total


def _precise(features: Tensor) -> Any:
    """Return float64 for float64 features, else float32, also under autocast."""
    return features.dtype if features.dtype.itemsize > 4 else features.float().dtype


def check_blocks(network: Network) -> None:
    """Raise if a network has no blocks to compare."""
    if not network.block_names:
        raise ValueError(
            f"the feature network {network.name} has no blocks: pass the names of its feature maps, "
            "Network(module, blocks=[…])"
        )
