"""The cell that trains a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from farout.networks import Network, create, load_weights, own_identity, save_weights, train
from farout.networks.training import VERSION
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, Work
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.spec import NetworkSpec
from farout.study.store import Store

WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class TrainCell(Cell):
    """A network trained on the inliers, from scratch or from given weights."""

    spec: NetworkSpec
    label: str
    seed: int
    train: ImageSource
    val: ImageSource

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "network",
            "version": VERSION,
            "untrained": self.untrained().digest,
            "recipe": self.recipe,
            "images": [self.train.about.fingerprint, self.val.about.fingerprint],
            **own_identity(self.spec.name, self.spec.params),
        }

    @property
    def classes(self) -> int:
        return self.spec.classes or len(self.train.about.classes)

    @property
    def recipe(self) -> dict[str, Any]:
        """The keywords of `train` that decide the weights."""
        assert self.spec.train is not None
        return {**self.spec.train.model_dump(), "seed": self.seed}

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*self.train.requires, *self.val.requires)

    @property
    def group(self) -> str:
        return self.id

    @property
    def title(self) -> str:
        return f"train {self.label}"

    def work(self, cells: Sequence[Any]) -> Work:
        return TrainWork(tuple(cells))

    def untrained(self) -> Network:
        """Return the network before training: new, or with the weights that are to be fine-tuned."""
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


class TrainWork(Work):
    """One training: a single chunk that keeps its own checkpoints and runs here, on all of torch's threads."""

    portable = False

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"train": self.cells[0].recipe["epochs"] * self.cells[0].train.about.total}

    @cached_property
    def chunks(self) -> list[Chunk]:
        return [Chunk("train", 0, self.roles["train"])]

    def prepare(self, store: Store, device: torch.device) -> Job:
        return TrainJob(self.cells[0], store, device, self.id)


class TrainJob(SingleJob[TrainCell]):
    """Trains, then hands over the weights and how the training went."""

    def __init__(self, cell: TrainCell, store: Store, device: torch.device, work: str) -> None:
        self.cell, self.store, self.device = cell, store, device
        self.checkpoint = store.scratch(work) / "checkpoint.safetensors"
        self.results: Arrays = {}

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        seen = 0

        def report(done: int, total: int, message: str) -> None:
            nonlocal seen
            progress(done - seen)
            seen = done

        cell, network = self.cell, self.cell.untrained()
        history = train(
            network, cell.train.open(self.store), cell.val.open(self.store), **cell.recipe,
            device=self.device, checkpoint=self.checkpoint, progress=report,
        )  # fmt: skip
        progress(chunk.stop - seen)
        facts = {"accuracy": np.array(history.best_accuracy), "best_epoch": np.array(history.best_epoch)}
        return facts | {f"weight:{name}": tensor.cpu().numpy() for name, tensor in network.state_dict().items()}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.results = results

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return "accuracy" in results

    def record(self) -> Record:
        network = self.cell.untrained()
        weights = {name.removeprefix("weight:"): rows for name, rows in self.results.items() if ":" in name}
        network.load_state_dict({name: torch.from_numpy(rows) for name, rows in weights.items()})
        facts = {name: self.results[name].item() for name in ("accuracy", "best_epoch")}
        return Record(facts, {WEIGHTS: lambda path: save_weights(network, path)})


@dataclass(frozen=True)
class TrainedNetwork(NetworkSource):
    """The network that a training cell leaves in the store."""

    cell: TrainCell

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.cell.label

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return self.cell.train.portable

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (self.cell,)

    def identity(self) -> Any:
        return {"trained": self.cell.id}

    def preview(self) -> Network:
        return self.cell.untrained()

    def build(self, store: Store) -> Network:
        network = self.cell.untrained()
        load_weights(network, store.file(self.cell.id, WEIGHTS))
        return network
