"""Base of the trained detectors: presets, training by the one loop, statistics of the training images, weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from farout.core import Detector, ImageSet, NotFitted, check_set
from farout.data.splits import select_split
from farout.detectors.trained.settings import BY_PRESET as BY_PRESET
from farout.detectors.trained.settings import Preset as Preset
from farout.detectors.trained.settings import Settings
from farout.identity import bytes_of, digest_arrays
from farout.networks.base import seeded
from farout.networks.weights import read_tensors
from farout.rng import seed_of
from farout.tensors import chunks
from farout.training import StageHistory, Task, files, fit
from farout.training.loop import Progress

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
class TrainedDetector(Settings, Detector, ABC):
    """Detector whose modules are trained on the inliers. Settings are the fields of a dataclass.

    A subclass lists its `presets`, and defines `build`, `recipe`, `task` and `compute`; `measure` if the score needs
    statistics of the training images. A field with the default BY_PRESET takes the preset's value.
    """

    outliers: ClassVar[Outliers] = "unused"
    sides: ClassVar[tuple[int, ...]] = (28, 32, 64)
    """Sides of images that it takes."""
    labeled: ClassVar[bool] = False
    """True if training needs labels of at least two classes."""
    at_once: ClassVar[int] = 256
    """Images scored at a time."""
    brief: ClassVar[Mapping[str, Any]] = {"training": {"epochs": 1}}
    """Parameters with which every stage trains for an epoch, as in `farout check`."""

    history: list[StageHistory] = field(default_factory=list, init=False, repr=False)
    """Losses and validation figures of the training, by stage; empty if it was loaded."""
    modules: dict[str, nn.Module] = field(default_factory=dict, init=False, repr=False)
    statistics: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False)
    inputs: Inputs | None = field(default=None, init=False, repr=False)
    extra_data: str | None = field(default=None, init=False, repr=False)
    """Name of the outlier set that it learned from, "" if none; None before `fit`, or if its file does not tell."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None:
            self._read(Path(self.weights))

    def identity(self) -> dict[str, Any]:
        """Return the settings and the recipe; once it is fitted or loaded, its state in place of the recipe."""
        identity = super().identity()
        if self.inputs is not None:
            del identity["recipe"]
            identity["state"] = self.digest
        return identity

    # Defined by subclasses

    @abstractmethod
    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        """Return the modules by name, with new weights drawn from torch's global generator."""

    @abstractmethod
    def task(self, sets: TrainingSets) -> Task:
        """Return the task that trains `modules`."""

    @abstractmethod
    def compute(self, images: Tensor) -> Tensor:
        """Return the scores [B] of images on the modules' device; larger = more outlying. Modules are in eval mode."""

    def measure(self, train: ImageSet, *, seed: int) -> dict[str, Tensor]:
        """Return statistics of the training images that the score needs, after training; see `statistics`."""
        return {}

    def measure_outliers(self, outliers: ImageSet, *, seed: int) -> dict[str, Tensor]:
        """Return statistics of the auxiliary outliers that the score needs, after `measure`."""
        return {}

    def import_state(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the tensors of `state_dict` from those of its authors' checkpoint; without inputs, CIFAR-10's hold."""
        raise ValueError(f"farout knows no published checkpoint of {self.name}; train one: farout train {self.name} …")

    # Training

    @property
    def complete(self) -> bool:
        """True if nothing is left to fit: modules and, if the score needs them, statistics."""
        return self.inputs is not None and (bool(self.statistics) or not self._measures)

    @property
    def _measures(self) -> bool:
        return type(self).measure is not TrainedDetector.measure

    @property
    def _measures_outliers(self) -> bool:
        return self.outliers != "unused" and type(self).measure_outliers is not TrainedDetector.measure_outliers

    @property
    def fit_arguments(self) -> tuple[str, ...]:
        """Arguments that `fit` uses beside the training images."""
        outliers = () if self.outliers == "unused" else ("auxiliary_outliers",)
        if self.weights is not None:
            return (*outliers, "seed", "device") if self._measures else ()
        return ("val", *outliers, "seed", "device")

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
        """Train on inliers; a second fit replaces the first. With `weights`, only measure the statistics they lack.

        val: validation images; None = a tenth of the training images, which then do not train.
        auxiliary_outliers: outliers to learn from.
        checkpoint, progress: as in `farout.training.fit`.
        """
        self.check_fit(train, auxiliary_outliers)
        if self.weights is not None:
            if not self.complete:
                self.to(device or "cpu")._measure(train, auxiliary_outliers, seed)
            return self
        sets = self._sets(train, val, auxiliary_outliers)
        inputs = Inputs(train.shape[0], train.shape[1], len(train.classes) if train.labels is not None else 0)
        self.inputs = None  # not fitted, should the training not end
        with seeded(seed_of(seed, "weights", self.name)):
            self.modules, self.statistics = self.build(inputs), {}
        self.history = fit(
            self.task(sets),
            sets.train,
            self.changed_recipe(seed),
            device=device or "cpu",
            checkpoint=checkpoint,
            progress=progress,
        )
        self.inputs, self.extra_data = inputs, "" if sets.outliers is None else sets.outliers.name
        self._measure(sets.train, sets.outliers, seed)
        return self

    def _measure(self, train: ImageSet, outliers: ImageSet | None, seed: int) -> None:
        """Measure all statistics."""
        self.statistics = self.measure(train, seed=seed)
        if outliers is not None and self.outliers != "unused":
            self.statistics |= self.measure_outliers(outliers, seed=seed)

    def check_fit(self, train: ImageSet, auxiliary_outliers: ImageSet | None = None) -> None:
        """Raise if `fit` cannot work on these images; nothing but their shapes and labels is read."""
        check_set("the training images", train)
        if auxiliary_outliers is not None:
            check_set("auxiliary_outliers", auxiliary_outliers)
        channels, height, width = train.shape
        if height != width or width not in self.sides or channels not in (1, 3):
            sides = ", ".join(map(str, self.sides))
            raise ValueError(
                f"{self.name} takes square images with 1 or 3 channels and a side of {sides}, got {channels} channels "
                f"and {height}×{width}; resize them, in a study by options of the data set"
            )
        if self.weights is not None:
            self._check_shape(train.shape)
            self._check_outliers(train, auxiliary_outliers, needed=self._measures_outliers and not self.complete)
            return
        if self.labeled and (train.labels is None or len(np.unique(train.labels)) < 2):
            raise ValueError(f"{self.name} learns to classify: expected training images of at least two classes")
        self._check_outliers(train, auxiliary_outliers, needed=self.outliers == "required")

    def _check_outliers(self, train: ImageSet, outliers: ImageSet | None, *, needed: bool) -> None:
        """Raise if auxiliary outliers are needed and missing, or have another shape than the training images."""
        if needed and not outliers:
            raise ValueError(
                f"{self.name} learns from outliers and got none: give fit(…, auxiliary_outliers=images), in a study "
                "auxiliary_outliers:, on the command line --outliers"
            )
        if outliers is not None and outliers.shape != train.shape:
            raise ValueError(
                f"{self.name}: auxiliary outliers have shape {outliers.shape}, the training images {train.shape}"
            )

    def _sets(self, train: ImageSet, val: ImageSet | None, outliers: ImageSet | None) -> TrainingSets:
        """Return the images of a training."""
        if val is None:
            train, val = select_split(train, "train"), select_split(train, "val")
        check_set("val", val)
        if val.shape != train.shape:
            raise ValueError(
                f"{self.name}: validation images have shape {val.shape}, the training images {train.shape}"
            )
        return TrainingSets(train, val, None if self.outliers == "unused" else outliers)

    # Scores

    def score(self, images: Tensor) -> Tensor:
        """Return the score of every image [B, C, H, W] in [0, 1]: [B] float64, larger = more outlying."""
        self._fitted()
        self._check_shape(images.shape[1:])
        self.to(images.device)
        parts = [self.compute(images[part]).double() for part in chunks(len(images), self.at_once)]
        return torch.cat([torch.empty(0, dtype=torch.float64, device=images.device), *parts])

    def _fitted(self) -> Inputs:
        """Return the inputs; raise if something is left to fit."""
        if self.inputs is None or not self.complete:
            lacks = "is not fitted" if self.inputs is None else "has weights without statistics of the training images"
            raise NotFitted(f"{self.name} {lacks}: call fit on the inliers' train split first")
        return self.inputs

    def _check_shape(self, shape: Sequence[int]) -> None:
        assert self.inputs is not None
        channels, side, _ = self.inputs
        if tuple(shape) != (channels, side, side):
            raise ValueError(
                f"{self.name} was trained on images of {channels}×{side}×{side}, got {'×'.join(map(str, shape))}"
            )

    def to(self, device: str | torch.device) -> Self:
        """Move modules and statistics to a device."""
        for module in self.modules.values():
            module.to(device)
        self.statistics = {name: tensor.to(device) for name, tensor in self.statistics.items()}
        return self

    # Weights

    @property
    def digest(self) -> str:
        """Hash of the modules' tensors and of the statistics."""
        return digest_arrays((name, bytes_of(tensor)) for name, tensor in sorted(self.state_dict().items()))

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
            raise ValueError(f"the weights do not fit {self.name} with {self.stored_params}: {error}") from error
        for module in self.modules.values():
            module.eval()

    def save(self, path: str | Path) -> None:
        """Write weights and statistics as safetensors, with the name and the settings."""
        if self.inputs is None:
            raise NotFitted(f"{self.name} is not fitted, so there are no weights to save: call fit first")
        header = files.Header(self.name, self.version, self.stored_params, self.extra_data)
        files.save(Path(path), "detector", self.state_dict(), header)

    def load(self, path: str | Path) -> Self:
        """Read weights that `save` wrote; raise if they are those of another detector or of other settings."""
        files.check(Path(path), "detector", files.Header(self.name, self.version, self.stored_params))
        self._read(Path(path))
        self.history = []
        return self

    def _read(self, path: Path) -> None:
        self.load_state_dict(read_tensors(path))
        self.extra_data = files.header(path, "detector").extra_data
