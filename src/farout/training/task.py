"""Tasks: modules, players and losses of a training; the loop does the rest."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from farout.core import ImageSet
from farout.identity import Json
from farout.rng import generator
from farout.training.history import Keep, StageHistory
from farout.training.recipe import Recipe

NONE: Mapping[str, Any] = MappingProxyType({})


def diverged(what: str, lr: float) -> FloatingPointError:
    """Return the error of a training that has diverged, with advice on the learning rate."""
    return FloatingPointError(f"{what}; lr={lr} is probably too high: try {lr / 10:g}")


class Stage(NamedTuple):
    """Part of a training with its own optimizers; it starts from the weights that the stage before kept."""

    name: str = ""
    """Name; a named stage has its own seed."""
    changes: Mapping[str, Any] = NONE
    """Settings of the recipe that differ in this stage: {"epochs": 10, "lr": 1e-5}."""
    keep: Keep = "last"
    """Epoch whose weights are kept: the last, or the one with the largest or smallest validation figure."""


class Player(NamedTuple):
    """Optimizer and the modules whose parameters it changes. The players of a stage take turns, in this order."""

    name: str
    modules: tuple[str, ...]
    steps: int = 1
    """Steps of its optimizer per turn, each on different images; the n-th steps of all players use the same images."""
    every: int = 1
    """Take part in every n-th turn only, starting with the first (lazy regularization)."""
    changes: Mapping[str, Any] = NONE
    """Settings of the recipe that differ for this player: {"lr": 4e-4, "betas": (0.0, 0.999)}."""
    shares: str = ""
    """Name of an earlier player whose optimizer it uses."""
    lr_factor: float = 1.0
    """Multiple of the recipe's learning rate."""


class Stream(NamedTuple):
    """Second source of images, such as outliers: `batch` of them come with every batch of training images.

    Their order is random and new in every epoch; a stream that is exhausted starts again.
    """

    images: ImageSet
    batch: int
    augment: tuple[str, ...] | None = None
    """Names of augmentations; None = the recipe's."""


class Batch(NamedTuple):
    """Images of one forward pass, augmented and on the device."""

    images: Tensor  # [B, C, H, W] in [0, 1]
    labels: Tensor | None  # [B]
    indices: Tensor  # [B]: indices in their set; on the CPU
    streams: Mapping[str, Batch] = NONE


class Position(NamedTuple):
    """Position in a stage."""

    stage: str
    epoch: int
    """Finished epochs."""
    step: int
    """Finished turns, over all epochs."""
    steps: int
    """Turns of the whole stage."""
    per_epoch: int
    """Turns of one epoch."""

    @property
    def epochs(self) -> float:
        """Finished epochs, including the fraction of the current one."""
        return self.step / self.per_epoch


@dataclasses.dataclass(frozen=True)
class Context:
    """Inputs of a loss other than the batch."""

    position: Position
    recipe: Recipe
    """Recipe with the changes of the stage and of the player."""
    scalars: Mapping[str, float]
    """Values of the task's scheduled scalars at this step."""
    device: torch.device
    seed: int
    """Seed of this forward pass, different from all others."""

    @cached_property
    def generator(self) -> torch.Generator:
        """Generator on the CPU, seeded for every forward pass, so that a training can resume at any step."""
        return generator(self.seed, "task")


class Task(ABC):
    """Definition of a training: modules, players, the loss of a step, and validation.

    All randomness of a loss comes from `context.generator`, or from torch's global generators, which the loop seeds
    for every forward pass and restores at the end. Other state that changes from step to step (a replay buffer) is
    saved and restored by `state` and `load_state`.
    """

    modules: Mapping[str, nn.Module]
    """Modules by name, whose weights are kept."""
    stages: tuple[Stage, ...] = (Stage(),)
    averaged: tuple[str, ...] | None = None
    """Modules whose weights are averaged if the recipe has a moving average; None = all."""
    scalars: Mapping[str, Callable[[Position], float]] = NONE
    """Scalars that change during training (ε, κ): functions of the position."""
    figure: str = "validation figure"
    """Name of the number that `validate` returns."""

    @property
    @abstractmethod
    def identity(self) -> Json:
        """Everything that determines the losses, except modules, recipe, training images and streams."""

    def players(self, stage: str) -> tuple[Player, ...]:
        """Return the players of a stage; by default one that changes all modules."""
        return (Player("model", tuple(self.modules)),)

    @property
    def streams(self) -> Mapping[str, Stream]:
        """Further sources of images; they may change at the start of an epoch."""
        return NONE

    @abstractmethod
    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        """Return the loss that this player minimizes: a mean over the batch. The modules are in training mode."""

    def validate(self, context: Context) -> float | None:
        """Return the validation figure after an epoch, which selects the best one; None without validation.

        Averaged modules have their averaged weights during this call.
        """
        return None

    def start_epoch(self, context: Context) -> None:  # noqa: B027
        """Prepare an epoch, for example by mining: called before it, with the current weights."""

    def end_epoch(self, context: Context) -> None:  # noqa: B027
        """Follow up on an epoch, for example by drawing samples: called after validation, with averaged weights."""

    def stops(self, history: StageHistory) -> bool:
        """Return True to end the stage early, after this epoch."""
        return False

    def state(self) -> dict[str, Tensor]:
        """Return further tensors for checkpoints, by name."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Restore the tensors that `state` returned, possibly in another process."""

    def to(self, device: torch.device) -> None:
        """Move the modules, and all else that losses need, to the device; called before training."""
        for module in self.modules.values():
            module.to(device)

    def weights(self) -> dict[str, Tensor]:
        """Return the weights of a finished training, with the module's name as prefix if there are several modules."""
        states = {name: module.state_dict() for name, module in self.modules.items()}
        if len(states) == 1:
            return dict(*states.values())
        return {f"{name}.{key}": value for name, state in states.items() for key, value in state.items()}
