"""Budget limits of the work that all protocols share: training networks, fitting detectors and generating sets."""

from __future__ import annotations

from typing import NamedTuple

from farout.study.spec import Budget


class Shared(NamedTuple):
    """Upper limits of one budget; None = no limit beyond the study's own."""

    train_images: int | None
    val_images: int | None
    epochs: int | None
    trained_networks: int | None
    """Networks that are trained: the first ones of the study. Networks with existing weights are not counted."""
    seeds: int | None


SHARED: dict[Budget, Shared] = {
    "quick": Shared(train_images=5_000, val_images=1_000, epochs=8, trained_networks=1, seeds=1),
    "standard": Shared(train_images=20_000, val_images=5_000, epochs=10, trained_networks=2, seeds=3),
    "full": Shared(train_images=None, val_images=None, epochs=None, trained_networks=None, seeds=None),
}


class Limits(NamedTuple):
    """Upper limits of one budget for generated sets; None = no limit beyond the study's own."""

    lambdas: int | None
    """Values of λs, each of which takes a generator: spread evenly over the list."""
    epochs: int | None
    """Epochs of a generator's training."""
    images: int
    """Images of a set whose size the study does not say."""


LIMITS: dict[Budget, Limits] = {
    "quick": Limits(lambdas=2, epochs=10, images=1_000),
    "standard": Limits(lambdas=4, epochs=25, images=5_000),
    "full": Limits(lambdas=None, epochs=None, images=10_000),
}
