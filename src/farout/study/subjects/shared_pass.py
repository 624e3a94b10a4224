"""Scores of several post-hoc detectors from one forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from farout.core import Activations, ImageSet
from farout.detectors.panel.panel import Panel
from farout.networks.network import Network
from farout.networks.passes import forward
from farout.study.sources.images import ImageSource

if TYPE_CHECKING:
    from farout.study.subjects.subject import Ask, Score


def previews(sources: Mapping[str, ImageSource]) -> dict[str, ImageSet]:
    return {name: source.preview() for name, source in sources.items()}


def shared_pass(network: Network, panels: list[Panel | str]) -> Score:
    """Return the scoring function of several one-detector panels on the same network.

    Detectors of the unperturbed images share one forward pass; each perturbing detector runs its own passes.
    panels: a panel that could not be opened is replaced by its traceback.
    """

    def only(panel: Panel | str, images: Tensor, shared: Activations | None) -> NDArray[np.float64]:
        if isinstance(panel, str):
            raise RuntimeError(f"the detector cannot be opened:\n{panel}")
        (scores,) = panel.score_batch(images, shared if panel.shares else None).values()
        return scores

    opened = [panel for panel in panels if isinstance(panel, Panel)]
    needs = frozenset().union(*(panel.needs(None) for panel in opened))
    shares = any(panel.shares for panel in opened)

    def score(images: Tensor) -> list[Ask]:
        shared = forward(network, images, needs) if shares else None
        return [partial(only, panel, images, shared) for panel in panels]

    return score
