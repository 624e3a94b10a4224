"""What is put to the test: a post-hoc detector on a network, or a detector that reads images."""

from __future__ import annotations

import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.adapters.catalog import create
from farout.attacks.victim import Victim
from farout.core import Activations, Detector, ImageSet, as_images, as_scores
from farout.describe import describe
from farout.detectors import supervision, tuned
from farout.detectors.panel import Panel
from farout.detectors.passes import forward
from farout.detectors.saved import state_digest
from farout.detectors.tuned import Images
from farout.identity import digest
from farout.networks.network import Network
from farout.study.cell import Cell, attempt
from farout.study.detector_fit import DetectorFitCell, description, fit_cell
from farout.study.fitting import MEMBER, FitCell, Part
from farout.study.sources import ImageSource, LiveNetwork, NetworkSource
from farout.study.spec import SPLIT, DetectorSpec
from farout.study.store import Store

Ask = Callable[[], NDArray[np.float64]]
"""Asks one detector for its scores of a batch."""
Score = Callable[[Tensor], list[Ask]]
"""Runs what detectors share over a batch; each can then be asked for its scores."""


class Subject(ABC):
    """One detector under test, to be had anywhere."""

    label: str
    network: str
    """Label of the network it reads; empty where it brings its own."""
    portable: bool

    @property
    def title(self) -> str:
        """Its label and that of its network, for people."""
        return f"{self.label} on {self.network}" if self.network else self.label

    @abstractmethod
    def identity(self) -> Any:
        """What decides its scores, as JSON."""

    @property
    @abstractmethod
    def group(self) -> str:
        """Subjects of one group share one forward pass."""

    @property
    def shares(self) -> bool:
        """Does it share its forward pass with what else reads the same network?"""
        return False

    @property
    def requires(self) -> tuple[Cell, ...]:
        """The cells that must be there before it can score."""
        return ()

    @property
    def learns(self) -> Mapping[str, ImageSource]:
        """The images that it is fitted on by split (train, val, outliers); none where it comes fitted."""
        return {}

    def fitted_on(self, part: Part) -> Subject:
        """The same detector fitted on a part of the inliers; an error where it comes fitted."""
        raise ValueError(f"{self.label} comes fitted, and cannot be fitted on single classes; name it in a study file")

    def stays(self, store: Store) -> bool:
        """Must one process do all its work, since what it has learned cannot be kept?"""
        return False

    def check(self) -> None:  # noqa: B027
        """An error where it can be known beforehand that fitting will fail."""

    def notes(self, inliers: ImageSource, outliers: Mapping[str, ImageSource]) -> list[str]:
        """What people must know of it to read a test on these images right."""
        return []

    @property
    def classifier(self) -> NetworkSource | None:
        """The network it reads, where that is known."""
        return None

    @abstractmethod
    def open(self, together: list[Any], store: Store, device: torch.device) -> Score:
        """A function that scores a batch for all these subjects of the group in one pass."""

    @abstractmethod
    def victim(self, store: Store, device: torch.device) -> Victim:
        """The detector with its network, to be attacked."""


@dataclass(frozen=True)
class PostHocSubject(Subject):
    """A post-hoc detector as its cell fitted it."""

    label: str
    fit: FitCell

    @property
    def network(self) -> str:  # type: ignore[override]
        return self.fit.network.label

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return self.fit.network.portable

    def identity(self) -> Any:
        return {"fitted": self.fit.id}

    @property
    def group(self) -> str:
        return digest(["network", self.fit.network.identity()])

    @property
    def shares(self) -> bool:
        return not self.fit.detector.perturbs

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (self.fit,)

    @property
    def learns(self) -> Mapping[str, ImageSource]:
        return self.fit.learns

    def fitted_on(self, part: Part) -> Subject:
        return replace(self, fit=self.fit.on(part))

    def check(self) -> None:
        detector, split = self.fit.detector, self.fit.detector.fits_on
        if split is not None:
            source = self.fit.train if split == "train" else self.fit.val
            if source is None:
                raise ValueError(f"{self.label} must be fitted, and the inliers have no {split} split; {SPLIT}")
            detector.check_fit(source.about.total, source.about.labelled)
        for images in (self.fit.train, self.fit.val):
            if images is not None and not images.about.total:
                raise ValueError(f"{self.label} is to be fitted, and there are no images of {images.about.name} for it")

    def notes(self, inliers: ImageSource, outliers: Mapping[str, ImageSource]) -> list[str]:
        if self.fit.learns_from is None:
            return []
        return [supervision.note(self.label, Images.of(self.fit.learns_from.load()), _loaded(outliers))]

    @property
    def classifier(self) -> NetworkSource | None:
        return self.fit.network

    def open(self, together: list[Any], store: Store, device: torch.device) -> Score:
        network = self.fit.network.build(store).to(device)
        return shared_pass(network, [attempt(partial(subject.panel_on, network, store)) for subject in together])

    def panel_on(self, network: Network, store: Store) -> Panel:
        """The detector as fitted, on its network."""
        return self.fit.fitted(store, network)

    def victim(self, store: Store, device: torch.device) -> Victim:
        network = self.fit.network.build(store).to(device)
        return Victim(network, self.fit.fitted(store, network).detectors[MEMBER])


_fitted: dict[str, Detector] = {}
"""Detectors that this process has fitted, since their state cannot be kept, by identity."""


@dataclass(frozen=True)
class ImageSubject(Subject):
    """A detector that reads images: as it stands, or as its cell has fitted it."""

    label: str
    source: DetectorSpec | Detector
    splits: Mapping[str, ImageSource] = field(default_factory=dict)
    """Images that it may be fitted on: train, val, outliers."""
    seed: int = 0
    fitted_before: ImageSource | None = field(default=None, compare=False)
    """The images that its maker has fitted it on."""
    network = ""

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return isinstance(self.source, DetectorSpec) and all(source.portable for source in self.splits.values())

    def fitted_on(self, part: Part) -> Subject:
        if not self.splits or isinstance(self.source, Detector):
            return super().fitted_on(part)
        return replace(self, splits={name: part(source) for name, source in self.splits.items() if name != "outliers"})

    @property
    def learns(self) -> Mapping[str, ImageSource]:
        if self.fit is not None:
            return dict(self.fit.splits)
        fits = self.fitted_before and type(self.make()).fit is not Detector.fit
        return {"train": self.fitted_before} if self.fitted_before and fits else {}

    @cached_property
    def fit(self) -> DetectorFitCell | None:
        """The cell that fits it; None where there is nothing to fit."""
        if isinstance(self.source, Detector):
            return None
        return fit_cell(self.label, self.source, self._own, self.make, dict(self.splits), self.seed)

    @property
    def requires(self) -> tuple[Cell, ...]:
        return () if self.fit is None else (self.fit,)

    def stays(self, store: Store) -> bool:
        return self.fit is not None and not self.fit.kept(store)

    def make(self) -> Detector:
        """The detector, not fitted."""
        if isinstance(self.source, Detector):
            return self.source
        detector = create(self.source.name, **self.source.params)
        assert isinstance(detector, Detector)
        return detector

    @cached_property
    def _own(self) -> Any:
        own = describe(self.source) if isinstance(self.source, Detector) else description(self.make)
        if own is None:
            warnings.warn(
                f"{self.label}: what this detector is cannot be told from its source and attributes, so its results "
                "are not reused between runs; give it an identity() that returns its name, version and parameters",
                stacklevel=2,
            )
            own = uuid.uuid4().hex
        return own

    def identity(self) -> Any:
        return {"detector": self._own} if self.fit is None else {"fitted": self.fit.id}

    @property
    def group(self) -> str:
        return digest(self.identity())

    def _fitted(self, store: Store) -> Detector:
        """The detector as fitted; one whose state cannot be kept is fitted once in this process."""
        if self.fit is None:
            return self.make()
        if not self.stays(store):
            return self.fit.fitted(store)
        if self.group not in _fitted:
            _fitted[self.group] = self.fit.fitted(store)
        return _fitted[self.group]

    def open(self, together: list[Any], store: Store, device: torch.device) -> Score:
        detector = self._fitted(store)

        def ask(images: Tensor) -> NDArray[np.float64]:
            with torch.no_grad():
                return as_scores(detector.score(as_images(images, device)), len(images), self.label, detector)

        return lambda images: [partial(ask, images) for _ in together]

    def victim(self, store: Store, device: torch.device) -> Victim:
        return Victim(None, self._fitted(store))


@dataclass(frozen=True)
class PanelSubject(Subject):
    """One member of a fitted panel held by this process."""

    label: str
    panel: Panel
    weights: str
    """The network's digest."""
    network: str = "network"
    fitted_before: Mapping[str, ImageSource] = field(default_factory=dict, compare=False)
    """The splits that the panel was fitted on, where its maker tells."""
    portable = False

    @property
    def shares(self) -> bool:
        return not self.panel.detectors[self.label].perturbs

    @property
    def learns(self) -> Mapping[str, ImageSource]:
        split = self.panel.detectors[self.label].fits_on
        return {name: images for name, images in self.fitted_before.items() if name == split}

    @cached_property
    def _identity(self) -> Any:
        detector = self.panel.detectors[self.label]
        return {"detector": detector.identity(), "network": self.weights, "state": state_digest(detector)}

    def identity(self) -> Any:
        return self._identity

    def notes(self, inliers: ImageSource, outliers: Mapping[str, ImageSource]) -> list[str]:
        told = []
        if record := self.panel.tuned.get(self.label):
            told.append(tuned.note(self.label, record, inliers.load(), _loaded(outliers)))
        if learned := self.panel.learned.get(self.label):
            told.append(supervision.note(self.label, learned, _loaded(outliers)))
        return told

    @property
    def group(self) -> str:
        return digest(["network", self.weights])

    @property
    def classifier(self) -> NetworkSource | None:
        return LiveNetwork(self.panel.network, self.weights, self.network)

    def open(self, together: list[Any], store: Store, device: torch.device) -> Score:
        network = self.panel.network
        return shared_pass(network, [attempt(partial(subject.panel_on, network, store)) for subject in together])

    def panel_on(self, network: Network, store: Store) -> Panel:
        """The member alone; it holds its network already."""
        return self.panel.only(self.label)

    def victim(self, store: Store, device: torch.device) -> Victim:
        return Victim(self.panel.network, self.panel.detectors[self.label])


def _loaded(sources: Mapping[str, ImageSource]) -> dict[str, ImageSet]:
    return {name: source.load() for name, source in sources.items()}


def shared_pass(network: Network, panels: list[Panel | str]) -> Score:
    """Scores of panels of one detector each that share a network: one forward pass for all that read the images as
    they are, one of its own for each that does not. A panel that could not be made is the traceback of why."""

    def only(panel: Panel | str, images: Tensor, shared: Activations | None) -> NDArray[np.float64]:
        if isinstance(panel, str):
            raise RuntimeError(f"the detector cannot be opened:\n{panel}")
        (scores,) = panel.score_batch(images, shared if panel.shares else None).values()
        return scores

    opened = [panel for panel in panels if isinstance(panel, Panel)]
    needs = frozenset().union(*(panel.needs(None) for panel in opened))
    shares = any(panel.shares for panel in opened)

    def score(images: Tensor) -> list[Ask]:
        shared = forward(network, images, needs) if shares else None
        return [partial(only, panel, images, shared) for panel in panels]

    return score
