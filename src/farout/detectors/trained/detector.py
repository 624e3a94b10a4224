"""Base of the trained detectors: presets, training by the one loop, statistics of the training images, weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from farout.checks import check_choice
from farout.component import Component
from farout.core import Detector, ImageSet, NotFitted
from farout.data.splits import select_split
from farout.identity import digest_module
from farout.networks.base import seeded
from farout.rng import seed_of
from farout.tensors import chunks
from farout.training import Recipe, StageHistory, Task, fit
from farout.training.loop import Progress

Preset = Literal["small", "full"]
"""Settings: those that train on two cores in minutes, or the paper's."""
PRESETS: tuple[Preset, ...] = ("small", "full")
BY_PRESET: Any = None
"""Default of a field whose value the preset sets."""
Outliers = Literal["unused", "optional", "required"]
"""Use of auxiliary outliers in training."""
INPUTS = "inputs"
"""Key of the state that holds channels, side and classes."""
STATISTICS = "statistics"
"""Prefix of the tensors that `measure` returns."""


class Inputs(NamedTuple):
    """Images that a detector is built for."""

    channels: int
    side: int
    classes: int
    """Number of classes; 0 without labels."""

    @property
    def size(self) -> int:
        """Number of values of an image."""
        return self.channels * self.side**2


class TrainingSets(NamedTuple):
    """Images of a training."""

    train: ImageSet
    val: ImageSet
    outliers: ImageSet | None
    """Auxiliary outliers, never tested on."""


@dataclass(kw_only=True, eq=False)
class TrainedDetector(Component, Detector, ABC):
    """Detector whose modules are trained on the inliers. Settings are the fields of a dataclass.

    A subclass lists its `presets`, and defines `build`, `recipe`, `task` and `compute`; `measure` if the score needs
    statistics of the training images. A field with the default BY_PRESET takes the preset's value.
    """

    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {"small": {}, "full": {}}
    """Values of the fields with the default BY_PRESET."""
    outliers: ClassVar[Outliers] = "unused"
    sides: ClassVar[tuple[int, ...]] = (28, 32, 64)
    """Sides of images that it takes."""
    labeled: ClassVar[bool] = False
    """True if training needs labels of at least two classes."""
    at_once: ClassVar[int] = 256
    """Images scored at a time."""

    preset: Preset = "small"
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `farout.training.Recipe` that differ from the preset's: {epochs: 3, lr: 0.001}."""
    history: list[StageHistory] = field(default_factory=list, init=False, repr=False)
    """Losses and validation figures of the training, by stage; empty if it was loaded."""
    modules: dict[str, nn.Module] = field(default_factory=dict, init=False, repr=False)
    statistics: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False)
    inputs: Inputs | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, PRESETS)
        for name, value in self.presets[self.preset].items():
            if getattr(self, name) is BY_PRESET:
                setattr(self, name, value)
        self.recipe().changed(**self.training)  # raise now if a setting is unknown

    @property
    def label(self) -> str:
        return f"{self.name} ({self.preset})"

    # Defined by subclasses

    @abstractmethod
    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        """Return the modules by name, with new weights drawn from torch's global generator."""

    @abstractmethod
    def recipe(self) -> Recipe:
        """Return the preset's recipe."""

    @abstractmethod
    def task(self, sets: TrainingSets) -> Task:
        """Return the task that trains `modules`."""

    @abstractmethod
    def compute(self, images: Tensor) -> Tensor:
        """Return the scores [B] of images on the modules' device; larger = more outlying. Modules are in eval mode."""

    def measure(self, train: ImageSet, *, seed: int) -> dict[str, Tensor]:
        """Return statistics of the training images that the score needs, after training; see `statistics`."""
        return {}

    # Training

    def fit(  # type: ignore[override]
        self,
        train: ImageSet,
        *,
        val: ImageSet | None = None,
        auxiliary_outliers: ImageSet | None = None,
        seed: int = 0,
        device: str | torch.device | None = None,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train on inliers; a second fit replaces the first.

        val: validation images; None = a tenth of the training images, which then do not train.
        auxiliary_outliers: outliers to learn from.
        checkpoint, progress: as in `farout.training.fit`.
        """
        sets = self._sets(train, val, auxiliary_outliers)
        inputs = Inputs(train.shape[0], train.shape[1], len(train.classes) if train.labels is not None else 0)
        with seeded(seed_of(seed, "weights", self.name)):
            self.modules = self.build(inputs)
        self.inputs, self.statistics = inputs, {}
        recipe = self.recipe().changed(**{"seed": seed, **self.training})
        self.history = fit(
            self.task(sets), sets.train, recipe, device=device or "cpu", checkpoint=checkpoint, progress=progress
        )
        self.statistics = self.measure(sets.train, seed=seed)
        return self

    def _sets(self, train: ImageSet, val: ImageSet | None, outliers: ImageSet | None) -> TrainingSets:
        """Return the images of a training. Raise if it cannot work on them."""
        channels, height, width = train.shape
        if height != width or width not in self.sides or channels not in (1, 3):
            sides = ", ".join(map(str, self.sides))
            raise ValueError(
                f"{self.name} takes square images with 1 or 3 channels and a side of {sides}, got {channels} channels "
                f"and {height}×{width}; resize them, in a study by options of the data set"
            )
        if self.labeled and (train.labels is None or len(np.unique(train.labels)) < 2):
            raise ValueError(f"{self.name} learns to classify: expected training images of at least two classes")
        if self.outliers == "required" and outliers is None:
            raise ValueError(
                f"{self.name} learns from outliers and got none: give fit(…, auxiliary_outliers=images), in a study "
                "auxiliary_outliers:, on the command line --outliers"
            )
        if outliers is not None and outliers.shape != train.shape:
            raise ValueError(
                f"{self.name}: auxiliary outliers have shape {outliers.shape}, the training images {train.shape}"
            )
        if val is None:
            train, val = select_split(train, "train"), select_split(train, "val")
        return TrainingSets(train, val, None if self.outliers == "unused" else outliers)

    # Scores

    def score(self, images: Tensor) -> Tensor:
        """Return the score of every image [B, C, H, W] in [0, 1]: [B] float64, larger = more outlying."""
        inputs = self._fitted()
        if tuple(images.shape[1:]) != (inputs.channels, inputs.side, inputs.side):
            raise ValueError(
                f"{self.name} was trained on images of {inputs.channels}×{inputs.side}×{inputs.side}, got "
                f"{list(images.shape)}"
            )
        self.to(images.device)
        parts = [self.compute(images[part]).double() for part in chunks(len(images), self.at_once)]
        return torch.cat([torch.empty(0, dtype=torch.float64, device=images.device), *parts])

    def _fitted(self) -> Inputs:
        if self.inputs is None:
            raise NotFitted(f"{self.name} is not fitted: call fit on the inliers' train split, or load weights, first")
        return self.inputs

    def to(self, device: str | torch.device) -> Self:
        """Move modules and statistics to a device."""
        for module in self.modules.values():
            module.to(device)
        self.statistics = {name: tensor.to(device) for name, tensor in self.statistics.items()}
        return self

    # Weights

    @property
    def digest(self) -> str:
        """Hash of the trained modules."""
        self._fitted()
        return digest_module(nn.ModuleDict(self.modules))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the tensors of all modules and statistics, and the inputs; empty before `fit`."""
        if self.inputs is None:
            return {}
        weights = {
            f"{name}.{key}": value for name, one in self.modules.items() for key, value in one.state_dict().items()
        }
        measured = {f"{STATISTICS}.{name}": value for name, value in self.statistics.items()}
        return {INPUTS: torch.tensor(self.inputs), **weights, **measured}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Build the modules for the stored inputs, and load the tensors of `state_dict`."""
        rest = dict(tensors)
        self.inputs = Inputs(*rest.pop(INPUTS).tolist())
        prefix = f"{STATISTICS}."
        self.statistics = {key.removeprefix(prefix): rest.pop(key) for key in list(rest) if key.startswith(prefix)}
        with torch.random.fork_rng(devices=[]):
            self.modules = self.build(self.inputs)
        try:
            nn.ModuleDict(self.modules).load_state_dict(rest)
        except RuntimeError as error:
            raise ValueError(f"the weights do not fit {self.name} with {self.params}: {error}") from error
        for module in self.modules.values():
            module.eval()
