"""Training cells: run in any process, several at once; an interrupted training resumes from its checkpoint."""

from __future__ import annotations

import dataclasses
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from farout.core import ImageSet
from farout.data.memo import remembered
from farout.identity import is_users
from farout.identity.values import plain
from farout.networks import Network, create, load_weights, own_identity
from farout.networks.accuracy import check_labels
from farout.networks.mode import PLAIN, Mode
from farout.networks.weights import write_tensors
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, UntimedWork, Work
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import AboutNetwork, NetworkSource
from farout.study.spec import NetworkSpec
from farout.study.store import Store
from farout.training import Classifier, Recipe, StageHistory, Task, fit
from farout.training.loop import VERSION

WEIGHTS = "weights.safetensors"
"""Name of the file of trained weights: the tensors of `Task.weights`."""
WEIGHT = "weight:"
REPORT_SECONDS = 0.05
"""Smallest number of seconds between two progress reports of a training."""


class TrainingCell(Cell):
    """Base of training cells; subclasses train a classifier, a detector or a generator."""

    label: str
    train: ImageSource

    @property
    @abstractmethod
    def recipe(self) -> Recipe:
        """Training recipe."""

    @property
    def others(self) -> Mapping[str, ImageSource]:
        """Images that the task reads beside the training images, for example for validation, or outliers."""
        return {}

    @abstractmethod
    def task(self, images: ImageSet, others: Mapping[str, ImageSet], store: Store) -> Task:
        """Return the task before training, with modules initialized from the seed."""

    def facts(self, histories: Sequence[StageHistory]) -> Mapping[str, Any]:
        """Return the small facts of a finished training: numbers, or lists of numbers."""
        return {}

    @property
    def sources(self) -> tuple[ImageSource, ...]:
        """All image sources that it reads."""
        return (self.train, *self.others.values())

    @property
    def requires(self) -> tuple[Cell, ...]:
        return tuple(cell for source in self.sources for cell in source.requires)

    @property
    def portable(self) -> bool:
        """True if it can run in another process."""
        return all(source.portable for source in self.sources)

    @property
    def title(self) -> str:
        return f"train {self.label}"

    def work(self, cells: Sequence[Any]) -> Work:
        return TrainWork(tuple(cells))


class TrainWork(UntimedWork):
    """Work on one training: a single chunk, which writes its own checkpoints."""

    @cached_property
    def roles(self) -> dict[str, int]:
        """Number of images of all epochs; approximate if there are several stages or players."""
        recipe, images = self.cells[0].recipe, self.cells[0].train.about.total
        return {"train": max(1, recipe.total_steps(images) if recipe.steps is None else recipe.steps * recipe.batch)}

    @cached_property
    def chunks(self) -> list[Chunk]:
        return [Chunk("train", 0, self.roles["train"])]

    def prepare(self, store: Store, device: torch.device) -> Job:
        return TrainJob(self.cells[0], store, device, self.id)


class TrainJob(SingleJob[TrainingCell]):
    """Trains, and returns the weights and the facts of the training."""

    def __init__(self, cell: TrainingCell, store: Store, device: torch.device, work: str) -> None:
        self.cell, self.store, self.device = cell, store, device
        self.checkpoint = store.scratch(work) / "checkpoint.safetensors"
        self.results: Arrays = {}

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        images = self.cell.train.open(self.store)
        others = {name: source.open(self.store) for name, source in self.cell.others.items()}
        task = self.cell.task(images, others, self.store)
        histories = fit(
            task,
            images,
            self.cell.recipe,
            device=self.device,
            checkpoint=self.checkpoint,
            progress=TrainingProgress(chunk.stop, progress),
        )
        facts = {name: np.array(value) for name, value in self.cell.facts(histories).items()}
        return facts | {f"{WEIGHT}{name}": tensor.cpu().numpy() for name, tensor in task.weights().items()}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.results = results

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return bool(results)

    def record(self) -> Record:
        weights = {
            name.removeprefix(WEIGHT): torch.from_numpy(rows)
            for name, rows in self.results.items()
            if name.startswith(WEIGHT)
        }
        facts = {name: rows.tolist() for name, rows in self.results.items() if not name.startswith(WEIGHT)}
        return Record(facts, {WEIGHTS: lambda path: write_tensors(path, weights, {"format": "pt"})})


class TrainingProgress:
    """Converts the progress of trainings to images of their chunk, and limits how often it is reported."""

    def __init__(self, images: int, progress: Progress) -> None:
        self.images, self.progress, self.reported, self.reported_at = images, progress, 0, 0.0

    def __call__(self, done: int, total: int, message: str) -> None:
        now = time.monotonic()
        if now - self.reported_at >= REPORT_SECONDS or done == total:
            self.reported_at, images = now, max(self.reported, done * self.images // total)
            self.progress(images - self.reported)
            self.reported = images


@dataclass(frozen=True)
class TrainCell(TrainingCell):
    """Network trained on the inliers, from scratch or from existing weights."""

    spec: NetworkSpec
    label: str
    seed: int
    train: ImageSource
    val: ImageSource

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "network",
            "version": [VERSION, Classifier.version],
            "untrained": self.weights_before,
            "recipe": self.recipe.identity(),
            "images": [self.train.about.fingerprint, self.val.about.fingerprint],
            **own_identity(self.spec.name, self.spec.params),
        }

    @property
    def classes(self) -> int:
        return self.spec.classes or len(self.train.about.classes)

    @property
    def recipe(self) -> Recipe:
        assert self.spec.train is not None
        return dataclasses.replace(self.spec.train, seed=self.seed)

    @property
    def others(self) -> Mapping[str, ImageSource]:
        return {"val": self.val}

    def task(self, images: ImageSet, others: Mapping[str, ImageSet], store: Store) -> Task:
        check_labels(images, self.classes, "training")
        return Classifier(self.untrained(), others["val"])

    def facts(self, histories: Sequence[StageHistory]) -> dict[str, float]:
        (history,) = histories
        return {"accuracy": history.figures[history.best_epoch], "best_epoch": history.best_epoch}

    @property
    def weights_before(self) -> str:
        """Digest of the network before training."""
        return str(self._start["digest"])

    @cached_property
    def about(self) -> AboutNetwork:
        """Facts of the network."""
        return AboutNetwork(self._start["classes"], tuple(self._start["blocks"]), self._start["has_maps"])

    @cached_property
    def _start(self) -> dict[str, Any]:
        """Facts of the network before training. New weights follow from the seed, so that those of built-in networks
        are drawn and hashed once and then remembered."""
        spec = self.spec
        if spec.pretrained or spec.weights is not None or is_users(create) or own_identity(spec.name, spec.params):
            return self._facts_before()
        channels, side, _ = self.train.about.shape
        form = {"classes": self.classes, "side": spec.side or side, "channels": channels, "seed": self.seed}
        settings = {"params": plain(spec.params), "mean": plain(spec.mean), "std": plain(spec.std)}
        key = {"name": spec.name, **settings, **form}
        found: dict[str, Any] = remembered("untrained", key, self._facts_before)
        return found

    def _facts_before(self) -> dict[str, Any]:
        network = self.untrained()
        classes, blocks, has_maps = AboutNetwork.of(network)
        return {"digest": network.digest, "classes": classes, "blocks": list(blocks), "has_maps": has_maps}

    def untrained(self) -> Network:
        """Return the network before training: with new weights, or with those to fine-tune."""
        channels, side, _ = self.train.about.shape
        spec = self.spec
        network = create(
            spec.name, self.classes, spec.side or side, channels, pretrained=spec.pretrained, fine_tune=True,
            mean=spec.mean, std=spec.std, seed=self.seed, **spec.params,
        )  # fmt: skip
        if spec.weights is not None:
            load_weights(network, str(spec.weights), fine_tune=True)
            if "identity" in vars(self) and network.digest != self.identity["untrained"]:
                raise RuntimeError(f"the weights of {self.label} have changed since the run was planned; run again")
        return network


@dataclass(frozen=True)
class Trained:
    """Source of a model whose weights a training cell has stored."""

    cell: Any

    @property
    def label(self) -> str:
        """Label of the model."""
        return str(self.cell.label)

    @property
    def portable(self) -> bool:
        """True if it can be sent to another process."""
        return bool(self.cell.portable)

    @property
    def requires(self) -> tuple[Cell, ...]:
        """The training cell."""
        return (self.cell,)

    def identity(self) -> Any:
        """Return the identity of the training."""
        return {"trained": self.cell.id}

    def preview(self) -> Any:
        """Return the model before training."""
        return self.cell.untrained()


@dataclass(frozen=True)
class TrainedNetwork(Trained, NetworkSource):  # type: ignore[override]
    """Network whose weights a training cell has stored."""

    cell: TrainCell
    mode: Mode = PLAIN

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"{self.cell.label}{self.mode.suffix}"

    @property
    def about(self) -> AboutNetwork:
        return self.cell.about

    def identity(self) -> Any:
        return self.mode.identify(super().identity())

    def build(self, store: Store) -> Network:
        network = self.cell.untrained()
        load_weights(network, store.file(self.cell.id, WEIGHTS))
        return network.running(self.mode)
