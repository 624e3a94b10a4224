"""A network and the post-hoc detectors that share its forward pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.core import Activations, Detector, ImageSet, PostHoc, Split
from farout.data.inputs import as_image_set
from farout.detectors.checks import check_classifier, check_suits
from farout.detectors.panel import saving as saved
from farout.detectors.panel import tuning
from farout.detectors.panel.export import export
from farout.detectors.panel.labels import label
from farout.detectors.panel.member import Member
from farout.detectors.panel.provenance import Images, Tuned
from farout.detectors.panel.supervision import check_outliers, supervise
from farout.detectors.panel.sweeps import needs_of, swept, table_of
from farout.detectors.panel.table import in_order
from farout.detectors.panel.thresholds import check_validation, p_values, threshold
from farout.detectors.panel.tuning import Grid
from farout.networks.network import Network
from farout.networks.passes import forward, look
from farout.progress import Listener
from farout.registry import unknown
from farout.scores import Scores, as_scores, finite
from farout.tensors import as_images

__all__ = ["Member", "Panel"]

Flags = dict[str, NDArray[np.bool_]]
"""Decisions by detector, [N] each."""


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
        for detector in self.detectors.values():
            check_classifier(detector, network.classes)
        self.validation: Scores = {}
        """Scores of the inlier validation split, once fitted with one."""
        self.tuned: dict[str, Tuned] = {}
        """How the members were tuned that were."""
        self.learned: dict[str, Images] = {}
        """The outliers that supervised members have learned from."""

    def __repr__(self) -> str:
        return f"Panel({', '.join(self.detectors)})"

    def fit(
        self,
        train: Any = None,
        val: Any = None,
        outliers: Any = None,
        progress: Listener | None = None,
    ) -> Panel:
        """Fit every detector on the inliers' train or val split, each image passing the network once.

        train, val, outliers: images as for `score`; detectors that need classes read those of a set or a data set.
        With `val`, the scores on it are kept for `threshold` and `p_values`; a detector that looks at other images
        costs more passes. outliers: images that supervised detectors (mds_layers) may learn from, each by passes of
        its own; the others never see them, and none of them may be tested on later. `learned` tells which they were.
        progress: listener for progress events; without one, a terminal shows a bar.
        """
        train, val, outliers = self._splits(train=train, val=val, outliers=outliers)
        self.check_splits(train, val)
        check_outliers(self.detectors, outliers, val)
        self.validation, self.learned = {}, {}
        if train is not None and self.needs("train"):
            table = table_of(self.network, train, self.needs("train"), progress, check=self._check_train)
            self.fit_from(table, train.labels, "train")
        if val is not None:
            table = table_of(self.network, val, self.needs("val") | self.needs(None), progress, check=self._check_val)
            self.fit_from(table, val.labels, "val")
            for name, detector in self.detectors.items():
                if outliers is not None and detector.supervised:
                    supervise(self.network, detector, val, outliers, progress)
                    self._place(detector)
                    self.learned[name] = Images.of(outliers)
            self.validate(table, val.name, self.score_looking(val, progress))
        return self

    def tune(
        self,
        grid: Grid,
        train: Any = None,
        val: Any = None,
        *,
        outliers: Any,
        progress: Listener | None = None,
    ) -> Panel:
        """Choose hyper-parameters by AUROC on `val` against `outliers`, then fit every detector.

        grid: by label the values to try, {"knn": {"k": [1, 10, 50]}}; of several fields all combinations. The best
        is kept, the first of equals; a candidate that cannot be fitted or scored is recorded as failed.
        One pass per image serves all candidates, save those of a detector that looks at other images (odin): every
        candidate passes `val` and `outliers` its own way. A candidate that fits on `val` is fitted on one half of it,
        drawn with a fixed seed, and judged on the other; the chosen one is then fitted on all of it.
        Supervised detectors learn from inliers alone here: what they learned from could not judge them.

        `tuned` tells what was tried, on which images. The AUROC of the best is no estimate for other images; never
        test on the images that were tuned on.
        """
        train, val = self._splits(train=train, val=val)
        tuning.tune(self, grid, train, val, self._images(outliers, "outliers"), progress)
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
        return needs_of(self.detectors.values(), split)

    def check_splits(self, train: ImageSet | None, val: ImageSet | None) -> None:
        """An error before the long work where a split cannot serve."""
        self.check_fit("train", train)
        self.check_fit("val", val)

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

    def _check_train(self, activations: Activations) -> None:
        """An error where a detector cannot fit on what the network gives of the training split's first images."""
        for detector in self.detectors.values():
            if detector.fits_on == "train":
                check_suits(detector, activations)

    def _check_val(self, activations: Activations) -> None:
        """An error where a detector cannot fit on, or score, the validation split's first images."""
        for detector in self.detectors.values():
            if detector.fits_on == "val" or not detector.perturbs:
                check_suits(detector, activations)

    def fit_from(self, table: Activations, labels: NDArray[np.int64] | None, split: Split) -> None:
        """Fit the detectors that look at `split` from its activations."""
        classes = None if labels is None else torch.from_numpy(labels)
        table = in_order(table, self.network.statistics_names)
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
        self.validation = self.score_table(table, name, own)

    def score_table(self, table: Activations, name: str, own: Scores) -> Scores:
        """Scores of the set called `name` from its activations, and those that these do not tell."""
        table = dataclasses.replace(table, head=self.network.head)  # it is on the device already
        table = in_order(table, self.network.statistics_names)
        parts = [self.score_activations(part.to(self.network.device)) for part in table.chunks()]
        scores = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]} | own
        return finite({key: scores[key] for key in self.detectors}, name)

    def score(self, images: Any, progress: Listener | None = None) -> Scores:
        """Scores by label, float64 [N], larger = more outlying; one forward pass per image.

        images: one image or many, as Pillow images, paths, arrays, tensors, a torch `Dataset` or `DataLoader`, a
            Hugging Face data set or an `ImageSet`; see `farout.data.as_image_set`.
        A detector that looks at other images than the given ones (odin) costs a gradient and a pass of its own.
        """
        found = self._images(images)
        parts: list[Scores] = [{key: np.empty(0) for key in self.detectors}]
        parts += [self.score_batch(batch) for batch in swept(found, "score", progress)]
        return finite({key: np.concatenate([part[key] for part in parts]) for key in self.detectors}, found.name)

    def _images(self, images: Any, what: str = "images") -> ImageSet:
        """Convert what a user gives as images, with the channels of the network where Pillow reads them."""
        return as_image_set(images, channels=self.network.channels, what=what)

    def _splits(self, **splits: Any) -> tuple[ImageSet | None, ...]:
        return tuple(None if given is None else self._images(given, split) for split, given in splits.items())

    def threshold(self, recall: float = 0.95) -> dict[str, float]:
        """Per detector, the smallest score that keeps at least `recall` of the validation inliers (score <= it)."""
        if not 0 < recall <= 1:
            raise ValueError(f"recall must lie in (0, 1], got {recall}; use 0.95 instead of 95")
        check_validation(self.validation, "thresholds")
        return {key: threshold(scores, recall) for key, scores in self.validation.items()}

    def is_outlier(self, images: Any, recall: float = 0.95, progress: Listener | None = None) -> Flags:
        """Per detector, which images it calls outliers: bool [N], score > `threshold(recall)`.

        At least `recall` of the validation inliers are not called so. images: as for `score`.
        """
        limits = self.threshold(recall)
        scores = self.score(images, progress)
        return {key: scores[key] > limit for key, limit in limits.items()}

    def p_values(self, images: Any, progress: Listener | None = None) -> Scores:
        """Per detector, conformal p-values: (1 + #{validation scores >= score}) / (n + 1); small = outlying.

        An inlier that is exchangeable with the n validation images has p <= α with probability at most α, whatever
        the detector (Vovk et al. 2005; Bates et al. 2023): calling p <= 0.05 an outlier flags at most 5 % of inliers,
        on average over validation sets. No p is below 1 / (n + 1). Those of a detector that was fitted or tuned on
        the validation images, or learned to tell outliers from them, are approximate: it has met these, and not the
        images it is asked about.
        """
        check_validation(self.validation, "p-values")
        scores = self.score(images, progress)
        return {key: p_values(scores[key], known) for key, known in self.validation.items()}

    def only(self, label: str) -> Panel:
        """The panel of one member, with all that is known of it."""
        panel = self.alone(label, self._known(label))
        panel.validation = {key: scores for key, scores in self.validation.items() if key == label}
        panel.tuned = {key: record for key, record in self.tuned.items() if key == label}
        panel.learned = {key: images for key, images in self.learned.items() if key == label}
        return panel

    def alone(self, label: str, detector: PostHoc) -> Panel:
        """A panel of this detector on the same network."""
        return Panel(self.network, {label: detector})

    def _known(self, label: str) -> PostHoc:
        if label not in self.detectors:
            raise unknown("detector of this panel:", label, self.detectors)
        return self.detectors[label]

    def __getitem__(self, name: str) -> Detector:
        """One member as a detector that reads images."""
        self._known(name)
        return Member(self, name)

    def activations(self, images: Tensor) -> Activations:
        """What the detectors read, from one forward pass in evaluation mode, without gradients."""
        return forward(self.network, images, self.needs(None))

    @torch.inference_mode()
    def score_activations(self, activations: Activations) -> Scores:
        """Scores from activations that are there already, of the detectors that read the images as they are."""
        reading = {key: detector for key, detector in self.detectors.items() if not detector.perturbs}
        return {key: as_scores(d.score(activations), len(activations), key, d) for key, d in reading.items()}

    @torch.inference_mode()
    def score_own(self, images: Tensor) -> Scores:
        """Scores of the detectors that look at other images than the given ones, each from a pass of its own."""
        images = as_images(images, self.network.device)
        looking = {key: detector for key, detector in self.detectors.items() if detector.perturbs}
        passes = ((key, d, look(self.network, d, images)) for key, d in looking.items())
        return {key: as_scores(d.score(activations), len(images), key, d) for key, d, activations in passes}

    def score_batch(self, images: Tensor, shared: Activations | None = None) -> Scores:
        """Scores of one batch; `shared` are its activations, where they are there already."""
        if self.shares and shared is None:
            shared = self.activations(images)
        scores = self.score_own(images) | ({} if shared is None else self.score_activations(shared))
        return {key: scores[key] for key in self.detectors}

    def score_looking(self, images: ImageSet, progress: Listener | None = None) -> Scores:
        """Scores of a whole set by the detectors that look at other images than the given ones."""
        if not any(detector.perturbs for detector in self.detectors.values()):
            return {}
        parts = [self.score_own(batch) for batch in swept(images, "score", progress)]
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}

    def _place(self, detector: PostHoc) -> None:
        """Put what a detector has learned where the network is, fit for gradients in whatever mode it was learned."""
        with torch.inference_mode(False):
            normal = {key: value.clone() if value.is_inference() else value for key, value in detector.state.items()}
            detector.state = {key: value.to(self.network.device) for key, value in normal.items()}

    def save(self, path: str | Path) -> None:
        """Write what was fitted to one safetensors file; the network's weights are not in it.

        A tensor that several detectors share (the bank of knn with several k) is written once, and shared again after
        loading.
        """
        states = {name: detector.state for name, detector in self.detectors.items()}
        kept = saved.Kept(states, self.validation, self.tuned, self.learned)
        saved.write(path, self.network.digest, self.detectors, kept)

    def export(self, path: str | Path, *, side: int | None = None) -> None:
        """Write the panel to one ONNX file, network and all: images [N, C, H, W] in [0, 1] in, scores and p-values out.

        Outputs are "score" and "p_value" of one detector, "knn_score", "knn_p_value" and so on of several; p-values
        where the panel was fitted with `val`. An error names detectors that cannot be written, such as odin, which
        needs gradients. What is written is first tried with ONNX Runtime (`farout[onnx]`).
        side: of the images; by default the network's.
        """
        export(self, path, side)

    @classmethod
    def load(cls, path: str | Path, network: Network) -> Panel:
        """Read a panel that `save` wrote; `network` must be the one it was fitted with."""
        with saved.opened(path) as file:
            facts = saved.facts_of(file.metadata(), path)
        digest = network.digest
        if facts["network"] != digest:
            digests = f"{facts['network'][:12]}…, this one is {digest[:12]}…"
            raise ValueError(f"{path} was fitted with another network (digest {digests})")
        with saved.reading(path):
            panel = cls(network, {name: saved.member(spec) for name, spec in facts["detectors"].items()})
        panel.load_state(path)
        return panel

    def load_state(self, path: str | Path) -> None:
        """Take over what a panel of the same detectors saved; the caller knows that the network is the same."""
        with torch.inference_mode(False):  # else what is read would take no gradients
            kept = saved.read(path, self.detectors, self.network.device)
        self.validation, self.tuned, self.learned = kept.validation, kept.tuned, kept.learned
        for name, detector in self.detectors.items():
            detector.state = kept.states[name]
