"""A progress listener that adds up."""

from __future__ import annotations

from farout.progress import Event


class Counting:
    """Keeps the events that report work, and the total that was announced."""

    def __init__(self) -> None:
        self.announced = 0
        self.steps: list[tuple[str, int]] = []

    def __call__(self, event: Event) -> None:
        self.announced += event.total
        if event.done:
            self.steps.append((event.title, event.done))

    @property
    def counts(self) -> list[int]:
        """The numbers of units, event by event."""
        return [done for _, done in self.steps]

    @property
    def swept(self) -> int:
        """All that was done."""
        return sum(self.counts)
