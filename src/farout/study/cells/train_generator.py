"""Training cell of a generator: its networks may be trained in the same study, and its weights lie in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from farout.core import ImageSet
from farout.generators import Generator
from farout.generators.monitor import Monitor
from farout.networks.weights import read_tensors
from farout.study.cells.cell import Cell
from farout.study.cells.train import WEIGHTS, Trained, TrainingCell
from farout.study.sources.generators import GeneratorSource, ObjectiveSource
from farout.study.sources.images import ImageSource
from farout.study.spec import GeneratorSpec
from farout.study.store import Store
from farout.training import Recipe, StageHistory, Task
from farout.training.loop import VERSION


@dataclass(frozen=True)
class TrainGeneratorCell(TrainingCell):
    """Generator trained on images with an objective."""

    spec: GeneratorSpec
    label: str
    objective: ObjectiveSource
    settings: Recipe
    """Training recipe, the seed among its settings."""
    train: ImageSource

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "generator",
            "version": VERSION,
            "generator": self.untrained().identity(),
            "objective": self.objective.identity(),
            "recipe": self.recipe.identity(),
            "images": self.train.about.fingerprint,
        }

    @property
    def recipe(self) -> Recipe:
        return self.settings

    @property
    def portable(self) -> bool:
        return super().portable and all(network.portable for network in self.objective.networks)

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*super().requires, *(cell for network in self.objective.networks for cell in network.requires))

    def untrained(self) -> Generator:
        """Return the generator before training."""
        return self.spec.untrained(self.train.about.shape)

    def task(self, images: ImageSet, others: Mapping[str, ImageSet], store: Store) -> Task:
        objective = self.objective.build(store)
        task = self.untrained().task(images, objective, seed=self.recipe.seed)
        task.watch(Monitor(images, objective.features))
        return task

    def facts(self, histories: Sequence[StageHistory]) -> dict[str, Any]:
        """Return the mean loss of every epoch by player, and the validation figures if there are any."""
        (history,) = histories
        known = {player: [loss for loss in losses if loss is not None] for player, losses in history.losses.items()}
        facts = {f"loss_{player}": losses for player, losses in known.items()}
        return facts | ({"fid": history.figures} if history.figures else {})


@dataclass(frozen=True)
class TrainedGenerator(Trained, GeneratorSource):  # type: ignore[override]
    """Generator whose weights a training cell has stored."""

    cell: TrainGeneratorCell
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of sampling that differ from those of the training, which has the defaults."""

    def identity(self) -> Any:
        return {**super().identity(), **({"sampling": dict(self.sampling)} if self.sampling else {})}

    def preview(self) -> Generator:
        return self.cell.spec.with_params(self.sampling).untrained(self.cell.train.about.shape)

    def build(self, store: Store) -> Generator:
        generator = self.preview()
        generator.load_state_dict(read_tensors(store.file(self.cell.id, WEIGHTS)))
        return generator
