"""Task of a generator's training: what all of them share, monitoring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farout.training import Context, Task

if TYPE_CHECKING:
    from farout.generators.generator import Generator
    from farout.generators.monitor import Monitor


class GeneratorTask(Task):
    """Base of the trainings of generators; the module "generator" generates, and is averaged if the recipe says so."""

    averaged = ("generator",)
    generator: Generator
    """Generator whose module is being trained."""
    monitor: Monitor | None = None

    def watch(self, monitor: Monitor) -> None:
        """Measure and draw samples during training."""
        self.monitor, self.figure = monitor, monitor.figure

    def validate(self, context: Context) -> float | None:
        if self.monitor is None:
            return None
        epochs = -(-context.position.steps // context.position.per_epoch)
        return self.monitor.measure(self.generator, context.position.epoch, epochs)

    def end_epoch(self, context: Context) -> None:
        if self.monitor is not None:
            self.monitor.draw(self.generator, context.position.epoch)
