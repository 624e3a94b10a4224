"""Prediction cell: the classes that a network predicts for an image set, from the pass that detectors share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.attacks.target import Target
from farout.core import Activations, ImageSet, PostHoc
from farout.detectors.panel.panel import Panel
from farout.identity import digest
from farout.networks.network import Network
from farout.study.cells.cell import Arrays, Cell, Record, Work
from farout.study.cells.errors import attempt
from farout.study.cells.fit import MEMBER
from farout.study.cells.score import ScoreWork, score_group
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.store import Store, score_table
from farout.study.subjects.shared_pass import shared_pass
from farout.study.subjects.subject import Score, Subject


class TopClass(PostHoc):
    """Predicted class in the form of a score, so that it shares the forward pass of detectors."""

    name = "top_class"
    needs = frozenset({"logits"})

    def score(self, activations: Activations) -> Tensor:
        return activations.logits.argmax(1).double()


@dataclass(frozen=True)
class ClassifierSubject(Subject):
    """Classifier in the form of a subject, so that it shares the forward pass of the detectors on it."""

    source: NetworkSource

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.source.label

    @property
    def network(self) -> str:  # type: ignore[override]
        return self.source.label

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return self.source.portable

    def identity(self) -> Any:
        return self.source.identity()

    @property
    def group(self) -> str:
        return digest(["network", self.source.identity()])

    @property
    def requires(self) -> tuple[Cell, ...]:
        return self.source.requires

    def open(self, together: list[Any], store: Store, device: torch.device) -> Score:
        network = self.source.build(store).to(device)
        return shared_pass(network, [attempt(partial(subject.panel_on, network, store)) for subject in together])

    def panel_on(self, network: Network, store: Store) -> Panel:
        """Return a panel whose scores are the predicted classes."""
        return Panel(network, {MEMBER: TopClass()})

    def target(self, store: Store, device: torch.device) -> Target:
        return Target(self.source.build(store).to(device))


@dataclass(frozen=True)
class PredictCell(Cell):
    """Predicted class of every image by one network."""

    network: NetworkSource
    images: ImageSource

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "predictions",
            "version": 1,
            "network": self.network.identity(),
            "images": self.images.about.fingerprint,
        }

    @property
    def subject(self) -> ClassifierSubject:
        """The classifier in the form of a subject."""
        return ClassifierSubject(self.network)

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*self.network.requires, *self.images.requires)

    @property
    def group(self) -> str:
        return score_group(self.subject, self.images)

    @property
    def title(self) -> str:
        return f"classify {self.images.about.name} by {self.network.label}"

    def work(self, cells: Sequence[Any]) -> Work:
        return ScoreWork(tuple(cells))

    def record(self, classes: NDArray[np.float64], images: ImageSet) -> Record:
        """Return the record of the predicted classes, with the labels if there are any."""
        columns: Arrays = {"index": images.index, "prediction": classes.astype(np.int64)}
        if images.labels is not None:
            columns["label"] = images.labels
        return Record({"images": len(classes)}, {"scores.parquet": score_table(columns)})
