"""Models that `farout.train` trains: detectors, generators and networks behind one interface."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from farout import generators, networks
from farout.core import ImageSet
from farout.detectors.catalog import catalog, names_of
from farout.detectors.trained.detector import TrainedDetector
from farout.generators import GENERATORS
from farout.networks.accuracy import check_labels
from farout.registry import unknown
from farout.training import Recipe, StageHistory
from farout.training import train as train_network
from farout.training.presets import PRESETS

EPOCHS = 100
"""Epochs of a network's training, if neither a preset nor a setting says how many."""
SHOWN = 5
"""Number of validation figures in the line on a finished training."""
CREATED = ("mean", "std", "pretrained")
"""Settings of a network that are not those of its architecture."""


class Model(ABC):
    """Model to be trained."""

    title: str
    trained: Any
    """The detector, generator or network; before `fit`, with new weights."""

    @abstractmethod
    def fit(self, device: str) -> None:
        """Train it."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write its file."""

    @abstractmethod
    def result(self) -> str:
        """Return a line on the finished training."""


def model_of(
    name: str,
    train: ImageSet,
    val: ImageSet,
    outliers: ImageSet | None,
    preset: str | None,
    seed: int,
    settings: dict[str, Any],
) -> Model:
    """Return a model by name; raise if it cannot be trained on these images with these settings."""
    trained = names_of(TrainedDetector)
    if name in trained:
        return DetectorModel(name, train, val, outliers, preset, seed, settings)
    if name in catalog:
        raise ValueError(f"{name} is fitted, not trained: name it in a study, or use farout.Panel(network, [{name!r}])")
    if outliers is not None:
        raise ValueError(f"{name} does not learn from outliers: leave them out (of detectors, oe does)")
    if name in GENERATORS:
        return GeneratorModel(name, train, val, preset, seed, settings)
    if name in networks.names() or name.startswith("timm:"):
        return NetworkModel(name, train, val, preset, seed, settings)
    raise unknown("model to train:", name, [*trained, *GENERATORS.names(), *networks.names()])


class DetectorModel(Model):
    """Trained detector."""

    trained: TrainedDetector

    def __init__(
        self,
        name: str,
        train: ImageSet,
        val: ImageSet,
        outliers: ImageSet | None,
        preset: str | None,
        seed: int,
        settings: dict[str, Any],
    ) -> None:
        known = inspect.signature(catalog[name]).parameters
        _check_known(name, settings, known)
        params, training = _divided(settings, known)
        if "weights" in params:
            raise ValueError(f"{name} is trained from new weights: leave out weights")
        training = {**params.pop("training", {}), **training}
        detector = catalog.create(name, **params, **({"preset": preset} if preset else {}), training=training)
        assert isinstance(detector, TrainedDetector)
        if outliers is not None and detector.outliers == "unused":
            raise ValueError(f"{name} does not learn from outliers: leave them out")
        detector.check_fit(train, outliers)
        self.trained, self.title, self.seed = detector, detector.label, seed
        self.train, self.val, self.outliers = train, val, outliers

    def fit(self, device: str) -> None:
        self.trained.fit(
            self.train, val=self.val, auxiliary_outliers=self.outliers, seed=self.seed, device=device
        )  # fmt: skip
        self.trained.to("cpu")

    def save(self, path: Path) -> None:
        self.trained.save(path)

    def result(self) -> str:
        return _result(self.trained.history)


class GeneratorModel(Model):
    """Generator, with its plain objective."""

    def __init__(
        self, name: str, train: ImageSet, val: ImageSet, preset: str | None, seed: int, settings: dict[str, Any]
    ) -> None:
        if preset is not None:
            raise ValueError(f"the generator {name} has no presets, got {preset!r}: leave it out")
        channels, side, width = train.shape
        if side != width:
            raise ValueError(f"{name} generates square images, and these are {side}×{width} px; give them a side")
        params, self.recipe = _divided(settings, inspect.signature(GENERATORS[name]).parameters)
        generator = generators.create(name, side, channels, **params)
        if generator.classes and "classes" not in params:
            classes = len(train.classes) if train.labels is not None else 0
            generator = generators.create(name, side, channels, **params, classes=classes)
        generator.recipe(**self.recipe)  # raise now if a setting is unknown
        self.trained, self.title, self.train, self.val, self.seed = generator, name, train, val, seed

    def fit(self, device: str) -> None:
        self.trained.fit(self.train, val=self.val, seed=self.seed, device=device, **self.recipe)
        self.trained.to("cpu")

    def save(self, path: Path) -> None:
        self.trained.save(path)

    def result(self) -> str:
        return _result([self.trained.history])


class NetworkModel(Model):
    """Classifier."""

    def __init__(
        self, name: str, train: ImageSet, val: ImageSet, preset: str | None, seed: int, settings: dict[str, Any]
    ) -> None:
        if preset is not None and preset not in PRESETS:
            raise unknown("preset of a training:", preset, PRESETS)
        params, recipe = _divided(settings, [*CREATED, *(networks.parameters(name) or ())])
        self.recipe = {"seed": seed, **({"preset": preset} if preset else {}), **recipe}
        if not preset and not recipe.keys() & {"epochs", "steps"}:
            self.recipe["epochs"] = EPOCHS
        Recipe.of(**self.recipe)  # raise now if a setting is unknown
        channels, side, _ = train.shape
        self.trained = networks.create(
            name, len(train.classes), side, channels, seed=seed, fine_tune="pretrained" in params, **params
        )
        for images, what in ((train, "training"), (val, "validation")):
            check_labels(images, self.trained.classes, what)
        self.title, self.train, self.val = name, train, val

    def fit(self, device: str) -> None:
        self.history = train_network(self.trained, self.train, self.val, device=device, **self.recipe)
        self.trained.to("cpu")

    def save(self, path: Path) -> None:
        networks.save_weights(self.trained, path)

    def result(self) -> str:
        return f"validation accuracy {self.history.best_accuracy:.3f} after epoch {self.history.best_epoch + 1}"


def _check_known(name: str, settings: Iterable[str], parameters: Iterable[str]) -> None:
    """Raise for a setting that is neither a parameter of the model nor one of its training."""
    known = {*parameters, *(field.name for field in fields(Recipe))} - {"preset", "training", "weights"}
    for setting in settings:
        if setting not in {*known, *parameters}:
            raise unknown(f"setting of {name} or of its training:", setting, known)


def _divided(settings: dict[str, Any], known: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a model, and all other settings, which are those of its training."""
    names = set(known)
    return (
        {key: value for key, value in settings.items() if key in names},
        {key: value for key, value in settings.items() if key not in names},
    )


def _result(histories: list[StageHistory]) -> str:
    """Return epochs, and the kept validation figure or the last losses, of every stage."""
    return "; ".join(map(_stage, histories))


def _stage(history: StageHistory) -> str:
    name = f"{history.stage}: " if history.stage else ""
    if history.figures and history.keep != "last":
        best = history.best_epoch
        kept = f"best {history.figure} {history.figures[best]:.4g} after epoch {best + 1}"
        last = [f"{figure:.4g}" for figure in history.figures[-SHOWN:]]
        course = f" (last epochs: {', '.join(last)})" if len(last) > 1 else ""
        return f"{name}{history.epochs} epochs, {kept}{course}"
    known = {player: losses[-1] for player, losses in history.losses.items() if losses[-1] is not None}
    return f"{name}{history.epochs} epochs, last loss " + ", ".join(f"{loss:.4g}" for loss in known.values())
