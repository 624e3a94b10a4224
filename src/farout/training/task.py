"""Tasks: what is trained. A task names modules, players and losses; the loop does the rest."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from farout.core import ImageSet
from farout.identity import Json
from farout.rng import generator
from farout.training.history import Keep, StageHistory
from farout.training.recipe import Recipe

NONE: Mapping[str, Any] = MappingProxyType({})


class Stage(NamedTuple):
    """One part of a training, with optimizers of its own; it starts from the weights that the one before has kept."""

    name: str = ""
    """A named stage draws from a seed of its own."""
    changes: Mapping[str, Any] = NONE
    """Settings of the recipe that are others in this stage: {"epochs": 10, "lr": 1e-5}."""
    keep: Keep = "last"
    """The weights that are kept: of the last epoch, or of that with the largest or smallest validation figure."""


class Player(NamedTuple):
    """An optimizer and the modules whose parameters it changes. The players of a stage take turns, in their order."""

    name: str
    modules: tuple[str, ...]
    steps: int = 1
    """Steps of its optimizer per turn, each on images of its own: the first step of every player gets the same."""
    every: int = 1
    """Play in every n-th turn only, beginning with the first (lazy regularization)."""
    changes: Mapping[str, Any] = NONE
    """Settings of the recipe that are others for it: {"lr": 4e-4, "betas": (0.0, 0.999)}."""
    shares: str = ""
    """A player before it whose optimizer it uses."""


class Stream(NamedTuple):
    """A second source of images, such as outliers: `batch` of them come with every batch of training images.

    They come in a new random order every epoch, and again from the start when there are no more.
    """

    images: ImageSet
    batch: int
    augment: tuple[str, ...] | None = None
    """Names of augmentations; None = the recipe's."""


class Batch(NamedTuple):
    """Images of one forward pass, augmented and on the device."""

    images: Tensor  # [B, C, H, W] in [0, 1]
    labels: Tensor | None  # [B]
    indices: Tensor  # [B]: where they stand in their set; on the CPU
    streams: Mapping[str, Batch] = NONE


class Position(NamedTuple):
    """How far a stage has come."""

    stage: str
    epoch: int
    """Epochs finished."""
    step: int
    """Turns finished, over all epochs."""
    steps: int
    """Turns of the whole stage."""
    per_epoch: int
    """Turns of one epoch."""

    @property
    def epochs(self) -> float:
        """Epochs finished, with the share of the present one."""
        return self.step / self.per_epoch


@dataclasses.dataclass(frozen=True)
class Context:
    """What a loss may depend on beside the batch."""

    position: Position
    recipe: Recipe
    """The recipe with the changes of the stage and of the player."""
    scalars: Mapping[str, float]
    """The task's scheduled scalars at this step."""
    device: torch.device
    seed: int
    """A seed that no other forward pass has."""

    @cached_property
    def generator(self) -> torch.Generator:
        """Generator on the CPU that starts anew in every forward pass, so that a training can go on at any step."""
        return generator(self.seed, "task")


class Task(ABC):
    """Something that is trained: modules, players, the loss of a step, and what to validate.

    All randomness of a loss comes from `context.generator`, or from torch's global generators, which the loop seeds
    for every forward pass and puts back in the end. What changes from step to step beside weights and buffers (a
    replay buffer) goes through `state` and `load_state`.
    """

    modules: Mapping[str, nn.Module]
    """Everything that has weights to be kept."""
    stages: tuple[Stage, ...] = (Stage(),)
    averaged: tuple[str, ...] | None = None
    """Modules of which a moving average is kept where the recipe has one; None = all."""
    scalars: Mapping[str, Callable[[Position], float]] = NONE
    """Scalars that change while training goes on (ε, κ): functions of the position."""
    figure: ClassVar[str] = "validation figure"
    """Name of what `validate` returns."""

    @property
    @abstractmethod
    def identity(self) -> Json:
        """Return what decides the losses, apart from modules, recipe, training images and streams."""

    def players(self, stage: str) -> tuple[Player, ...]:
        """Return the players of a stage; by default one that changes all modules."""
        return (Player("model", tuple(self.modules)),)

    @property
    def streams(self) -> Mapping[str, Stream]:
        """Return the further sources of images; they may change at the start of an epoch."""
        return NONE

    @abstractmethod
    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        """Return the loss that this player minimizes: a mean over the batch. The modules are in training mode."""

    def validate(self, context: Context) -> float | None:
        """Return the figure that tells good epochs from bad ones, called after every epoch; None where there is none.

        Averaged modules have their averaged weights here.
        """
        return None

    def start_epoch(self, context: Context) -> None:  # noqa: B027
        """Do what an epoch needs, such as mining: called before it, with the weights as trained so far."""

    def end_epoch(self, context: Context) -> None:  # noqa: B027
        """Do what follows an epoch, such as drawing samples: called after validation, with averaged weights."""

    def stops(self, history: StageHistory) -> bool:
        """Return True where the stage shall end after this epoch already."""
        return False

    def state(self) -> dict[str, Tensor]:
        """Return what else a checkpoint must hold, by name."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Take over what `state` has returned, here or in another process."""

    def to(self, device: torch.device) -> None:
        """Move all that is needed to the device; called before training."""
        for module in self.modules.values():
            module.to(device)

    def weights(self) -> dict[str, Tensor]:
        """Return what is kept of a finished training: every module's state under its name, of a single one as it is."""
        states = {name: module.state_dict() for name, module in self.modules.items()}
        if len(states) == 1:
            return dict(*states.values())
        return {f"{name}.{key}": value for name, state in states.items() for key, value in state.items()}
