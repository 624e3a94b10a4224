"""History of a training stage: losses and validation figures of every epoch."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

Keep = Literal["last", "max", "min"]


@dataclasses.dataclass
class StageHistory:
    """Losses and validation figures of one stage, epoch by epoch."""

    stage: str = ""
    keep: Keep = "last"
    losses: dict[str, list[float | None]] = dataclasses.field(default_factory=dict)
    """Mean loss of every epoch by player; None if the player had no turn."""
    figures: list[float] = dataclasses.field(default_factory=list)
    """Validation figure of every epoch."""
    figure: str = "validation figure"
    """Name of the validation figure: "validation accuracy"."""
    epochs: int = 0
    """Number of finished epochs."""

    @property
    def best_epoch(self) -> int:
        """Index of the epoch whose weights are kept; the last of equals."""
        if self.keep == "last":
            return self.epochs - 1
        sign = 1 if self.keep == "max" else -1
        return max(range(len(self.figures)), key=lambda epoch: (sign * self.figures[epoch], epoch))

    def add(self, losses: dict[str, float | None], figure: float | None) -> None:
        """Add an epoch."""
        for player, loss in losses.items():
            self.losses.setdefault(player, []).append(loss)
        if figure is not None:
            self.figures.append(figure)
        self.epochs += 1

    def as_json(self) -> dict[str, Any]:
        """Return the history as JSON."""
        return dataclasses.asdict(self)
