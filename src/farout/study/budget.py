"""What a budget allows the work that all protocols share: training a network and fitting detectors."""

from __future__ import annotations

from typing import NamedTuple

from farout.study.spec import Budget


class Shared(NamedTuple):
    """Upper limits; None = what the study says."""

    train_images: int | None
    val_images: int | None
    epochs: int | None


SHARED: dict[Budget, Shared] = {
    "quick": Shared(train_images=5_000, val_images=1_000, epochs=8),
    "standard": Shared(train_images=50_000, val_images=5_000, epochs=40),
    "full": Shared(train_images=None, val_images=None, epochs=None),
}
