"""A network and the post-hoc detectors that share its forward pass."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from farout.core import (
    Activations,
    Detector,
    ImageSet,
    NotFitted,
    PostHoc,
    Scores,
    Split,
    as_images,
    as_scores,
    chunks,
    finite,
)
from farout.detectors.labels import label
from farout.detectors.passes import forward, own_pass
from farout.detectors.saved import facts_of, member, opened, state_digest
from farout.detectors.table import Table, columns_of
from farout.networks.network import Network
from farout.registry import unknown

Progress = Callable[[int], None]
"""Called with the number of images done since the last call."""


class Panel:
    """A network and post-hoc detectors: one forward pass per image serves every fit and every score.

    detectors: names, `PostHoc` objects, or a mapping from labels of your own to either. Where one detector comes
    with several parameters its label tells them apart: "knn" and "knn(k=10)".
    """

    def __init__(self, network: Network, detectors: Sequence[str | PostHoc] | Mapping[str, str | PostHoc]) -> None:
        if not isinstance(network, Network):
            got = type(network).__name__
            raise TypeError(f"expected a farout.Network, got {got}; wrap it: farout.Network(module, mean=…, std=…)")
        self.network = network
        self.detectors = label(detectors)
        self.validation: Scores = {}
        """Scores of the inlier validation split, once fitted with one."""

    def __repr__(self) -> str:
        return f"Panel({', '.join(self.detectors)})"

    def fit(
        self, train: ImageSet | None = None, val: ImageSet | None = None, progress: Progress | None = None
    ) -> Panel:
        """Fit every detector on the inliers' train or val split, each image passing the network once.

        With `val`, the scores on it are kept for `threshold`; a detector that looks at other images costs more passes.
        """
        for split, images in (("train", train), ("val", val)):
            self.check_fit(split, images)
        self.validation = {}
        if train is not None and self.needs("train"):
            self.fit_from(self._table(train, self.needs("train"), progress), train.labels, "train")
        if val is not None:
            table = self._table(val, self.needs("val") | self.needs(None), progress)
            self.fit_from(table, val.labels, "val")
            self.validate(table, val.name, self._own_scores(val))
        return self

    @property
    def fitted(self) -> bool:
        """Has everything been fitted that needs it?"""
        return all(detector.state for detector in self.detectors.values() if detector.fits_on)

    @property
    def shares(self) -> bool:
        """Does any of the detectors read the images as they are, which one pass serves?"""
        return not all(detector.perturbs for detector in self.detectors.values())

    def needs(self, split: Split | None) -> frozenset[str]:
        """What the detectors that fit on `split` read; for None, what scoring reads of the images as they are."""
        reading = (d for d in self.detectors.values() if (not d.perturbs if split is None else d.fits_on == split))
        return frozenset().union(*(detector.needs for detector in reading))

    def check_fit(self, split: str, images: ImageSet | None) -> None:
        """An error before the long work where a split that detectors fit on is missing or cannot serve."""
        fitting = {name: detector for name, detector in self.detectors.items() if detector.fits_on == split}
        if fitting and images is None:
            raise ValueError(f"{', '.join(fitting)} must be fitted on the inliers' {split} split: pass {split}=")
        if images is not None:
            if not len(images):
                raise ValueError(f"the {split} split {images.name!r} is empty")
            for detector in fitting.values():
                detector.check_fit(len(images), images.labels is not None)

    def fit_from(self, table: Activations, labels: NDArray[np.int64] | None, split: Split) -> None:
        """Fit the detectors that look at `split` from its activations."""
        classes = None if labels is None else torch.from_numpy(labels)
        for name, detector in self.detectors.items():
            if detector.fits_on == split:
                try:
                    detector.fit(table, classes)
                except (ValueError, RuntimeError) as error:
                    error.add_note(f"while fitting {name} on {len(table)} images of the {split} split")
                    raise
                self._place(detector)

    def validate(self, table: Activations, name: str, own: Scores) -> None:
        """Score the inlier validation split from its activations.

        own: the scores of the detectors that look at other images, which these activations do not tell.
        """
        table = dataclasses.replace(table, head=self.network.head)  # it is on the device already
        parts = [self.score_activations(part.to(self.network.device)) for part in table.chunks()]
        scores = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]} | own
        self.validation = finite({key: scores[key] for key in self.detectors}, name)

    def score(self, images: ImageSet | Tensor, progress: Progress | None = None) -> Scores:
        """Scores by label, float64 [N], larger = more outlying; one forward pass per image.

        A detector that looks at other images than the given ones (odin) costs a gradient and a pass of its own.
        """
        name = images.name if isinstance(images, ImageSet) else "images"
        batches = iter(images) if isinstance(images, ImageSet) else (images[part] for part in chunks(len(images)))
        parts: list[Scores] = [{key: np.empty(0) for key in self.detectors}]
        for batch in batches:
            parts.append(self.score_batch(batch))
            if progress:
                progress(len(batch))
        return finite({key: np.concatenate([part[key] for part in parts]) for key in self.detectors}, name)

    def threshold(self, recall: float = 0.95) -> dict[str, float]:
        """Per detector, the smallest score that keeps at least `recall` of the validation inliers (score <= it)."""
        if not 0 < recall <= 1:
            raise ValueError(f"recall must lie in (0, 1], got {recall}; use 0.95 instead of 95")
        if not self.validation:
            raise NotFitted("thresholds need inlier validation scores: call fit(train, val=...) first")
        return {key: _threshold(scores, recall) for key, scores in self.validation.items()}

    def __getitem__(self, name: str) -> Detector:
        """One member as a detector that reads images."""
        if name not in self.detectors:
            raise unknown("detector of this panel:", name, self.detectors)
        return Member(self, name)

    def activations(self, images: Tensor) -> Activations:
        """What the detectors read, from one forward pass in evaluation mode, without gradients."""
        return forward(self.network, images, self.needs(None))

    @torch.inference_mode()
    def score_activations(self, activations: Activations) -> Scores:
        """Scores from activations that are there already, of the detectors that read the images as they are."""
        reading = {key: detector for key, detector in self.detectors.items() if not detector.perturbs}
        return {key: as_scores(d.score(activations), len(activations), key) for key, d in reading.items()}

    @torch.inference_mode()
    def score_own(self, images: Tensor) -> Scores:
        """Scores of the detectors that look at other images than the given ones, each from a pass of its own."""
        images = as_images(images, self.network.device)
        looking = {key: detector for key, detector in self.detectors.items() if detector.perturbs}
        passes = ((key, d, own_pass(self.network, d, images)) for key, d in looking.items())
        return {key: as_scores(d.score(activations), len(images), key) for key, d, activations in passes}

    def score_batch(self, images: Tensor, shared: Activations | None = None) -> Scores:
        """Scores of one batch; `shared` are its activations, where they are there already."""
        if self.shares and shared is None:
            shared = self.activations(images)
        scores = self.score_own(images) | ({} if shared is None else self.score_activations(shared))
        return {key: scores[key] for key in self.detectors}

    def _table(self, images: ImageSet, needs: frozenset[str], progress: Progress | None) -> Activations:
        table, start = Table(len(images), self.network.head), 0
        for batch in images:
            if needs:
                table.put(start, columns_of(forward(self.network, batch, needs), needs))
            start += len(batch)
            if progress:
                progress(len(batch))
        return table.activations()

    def _own_scores(self, images: ImageSet) -> Scores:
        if not any(detector.perturbs for detector in self.detectors.values()):
            return {}
        parts = [self.score_own(batch) for batch in images]
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}

    def _place(self, detector: PostHoc) -> None:
        detector.state = {key: value.to(self.network.device) for key, value in detector.state.items()}

    def save(self, path: str | Path) -> None:
        """Write what was fitted to one safetensors file; the network's weights are not in it."""
        state = {
            f"{name}/{key}": value.contiguous().clone()
            for name, d in self.detectors.items()
            for key, value in d.state.items()
        }
        state |= {f"{name}//validation": torch.from_numpy(scores) for name, scores in self.validation.items()}
        members = {name: detector.identity() for name, detector in self.detectors.items()}
        facts = {"format": 1, "network": self.network.digest, "detectors": members}
        save_file(state, str(path), metadata={"farout": json.dumps(facts)})

    @classmethod
    def load(cls, path: str | Path, network: Network) -> Panel:
        """Read a panel that `save` wrote; `network` must be the one it was fitted with."""
        with opened(path) as file:
            facts = facts_of(file.metadata(), path)
        if facts["network"] != network.digest:
            digests = f"{facts['network'][:12]}…, this one is {network.digest[:12]}…"
            raise ValueError(f"{path} was fitted with another network (digest {digests})")
        panel = cls(network, {name: member(spec) for name, spec in facts["detectors"].items()})
        panel.load_state(path)
        return panel

    def load_state(self, path: str | Path) -> None:
        """Take over what a panel of the same detectors saved; the caller knows that the network is the same."""
        with opened(path) as file:
            facts = facts_of(file.metadata(), path)
            mine = json.loads(json.dumps({name: detector.identity() for name, detector in self.detectors.items()}))
            if facts["detectors"] != mine:
                raise ValueError(f"{path} holds {facts['detectors']}, this panel is {mine}: fit it again")
            validation: Scores = {}
            states: dict[str, dict[str, Tensor]] = {name: {} for name in self.detectors}
            for key in file.keys():  # noqa: SIM118
                name, _, rest = key.partition("/")
                if rest == "/validation":
                    validation[name] = file.get_tensor(key).numpy()
                else:
                    states[name][rest] = file.get_tensor(key).to(self.network.device)
        self.validation = validation
        for name, detector in self.detectors.items():
            detector.state = states[name]


class Member(Detector):
    """One detector of a panel, reading images. Gradients flow to images that require them."""

    def __init__(self, panel: Panel, label: str) -> None:
        self.panel, self.name = panel, label

    def fit(self, images: ImageSet) -> None:
        detector = self.panel.detectors[self.name]
        if detector.fits_on is not None:
            splits = {detector.fits_on: images}
            Panel(self.panel.network, {self.name: detector}).fit(splits.get("train"), splits.get("val"))
            self.panel.validation.pop(self.name, None)

    def score(self, images: Tensor) -> Tensor:
        detector, network = self.panel.detectors[self.name], self.panel.network
        images = as_images(images, network.device)
        with torch.inference_mode(not images.requires_grad), network.evaluating():
            if not len(images):
                return images.new_empty(0, dtype=torch.float64)
            if detector.perturbs:
                return detector.score(own_pass(network, detector, images))
            return detector.score(network(images, blocks="blocks" in detector.needs))

    def identity(self) -> dict[str, Any]:
        """The detector's identity, what it has learned, and the network it reads."""
        detector = self.panel.detectors[self.name]
        return {**detector.identity(), "network": self.panel.network.digest, "state": state_digest(detector)}


def _threshold(scores: NDArray[np.float64], recall: float) -> float:
    shares = np.arange(1, len(scores) + 1) / len(scores)
    return float(np.sort(scores)[np.searchsorted(shares, recall)])
