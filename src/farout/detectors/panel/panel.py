"""Panel: a network and the post-hoc detectors that share its forward pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
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
from farout.detectors.panel.labels import label_detectors
from farout.detectors.panel.member import Member
from farout.detectors.panel.memory import Memory
from farout.detectors.panel.provenance import ImagesRecord, Tuned
from farout.detectors.panel.reduced import Reduced, reduce_fit
from farout.detectors.panel.supervision import check_outliers, supervise
from farout.detectors.panel.sweeps import compute_activations, iterate_batches, needs_of
from farout.detectors.panel.table import sort_blocks
from farout.detectors.panel.thresholds import check_validation, p_values, threshold
from farout.detectors.panel.tuning import Grid
from farout.networks.network import Network
from farout.networks.passes import forward, perturbed_pass
from farout.progress import Listener
from farout.registry import unknown
from farout.scores import Scores, as_scores, finite
from farout.tensors import as_images

__all__ = ["Member", "Panel"]

NO_TITLES: Mapping[str, str] = MappingProxyType({})
NO_REDUCED: Mapping[str, Reduced] = MappingProxyType({})
Flags = dict[str, NDArray[np.bool_]]
"""Decisions by detector, [N] each."""


class Panel:
    """Network with post-hoc detectors; one forward pass per image serves all fits and all scores.

    detectors: names, `PostHoc` objects, or a mapping from labels to either. If a detector occurs several times with
    different parameters, its labels name them: "knn" and "knn(k=10)".
    titles: names of members in errors, by label; by default the labels.
    """

    def __init__(
        self,
        network: Network,
        detectors: Sequence[str | PostHoc] | Mapping[str, str | PostHoc],
        *,
        titles: Mapping[str, str] = NO_TITLES,
    ) -> None:
        if not isinstance(network, Network):
            got = type(network).__name__
            raise TypeError(f"expected a farout.Network, got {got}; wrap it: farout.Network(module, mean=…, std=…)")
        self.network = network
        self.detectors = label_detectors(detectors)
        self.titles = {label: titles.get(label, label) for label in self.detectors}
        for detector in self.detectors.values():
            check_classifier(detector, network.classes)
        self.validation: Scores = {}
        """Scores of the inlier validation split, if fitted with one."""
        self.tuned: dict[str, Tuned] = {}
        """Tuning records of the tuned members."""
        self.learned: dict[str, ImagesRecord] = {}
        """Outliers that supervised members learned from."""

    def __repr__(self) -> str:
        return f"Panel({', '.join(self.detectors)})"

    def fit(
        self,
        train: Any = None,
        val: Any = None,
        outliers: Any = None,
        progress: Listener | None = None,
    ) -> Panel:
        """Fit every detector on the inliers' train or val split, with one forward pass per image.

        train, val, outliers: images as for `score`; detectors that need classes read the labels of a set or a data set.
        With `val`, its scores are stored for `threshold` and `p_values`; a detector that perturbs images needs extra
        passes. outliers: images that supervised detectors (mds_layers) may learn from, each with its own passes; the
        other detectors do not use them, and they must not be used for testing later. `learned` records them.
        progress: listener for progress events; without one, a terminal shows a bar.
        """
        train, val, outliers = self._splits(train=train, val=val, outliers=outliers)
        self.check_splits(train, val)
        check_outliers(self.detectors, outliers, val)
        self.validation, self.learned = {}, {}
        if train is not None and self.needs("train"):
            self._fit_train(train, progress)
        if val is not None:
            table = compute_activations(
                self.network, val, self.needs("val") | self.needs(None), progress, check=self._check_val
            )
            self.fit_from(table, val.labels, "val")
            for name, detector in self.detectors.items():
                if outliers is not None and detector.supervised:
                    supervise(self.network, detector, val, outliers, progress)
                    self._place(detector)
                    self.learned[name] = ImagesRecord.of(outliers)
            self.validate(table, val.name, self.score_perturbing_set(val, progress))
        return self

    def _fit_train(self, train: ImageSet, progress: Listener | None) -> None:
        """Fit on the train split, without keeping the rows that reductions do without."""
        reduced, memory = dict[str, Reduced](), Memory()
        for name, detector in self.detectors.items():
            if one := reduce_fit(detector, train.labels, len(train), self.network.head, memory):
                reduced[name] = one
        needs = needs_of((d for name, d in self.detectors.items() if name not in reduced), "train")
        table = compute_activations(
            self.network, train, needs, progress, check=self._check_train, reduced=reduced.values(), memory=memory
        )
        self.fit_from(table, train.labels, "train", reduced)

    def tune(
        self,
        grid: Grid,
        train: Any = None,
        val: Any = None,
        *,
        outliers: Any,
        progress: Listener | None = None,
    ) -> Panel:
        """Select hyper-parameters by AUROC on `val` against `outliers`, then fit every detector.

        grid: values to try by label, {"knn": {"k": [1, 10, 50]}}; for several fields all combinations. The best is
        selected, the first among equals; a candidate that cannot be fitted or scored is recorded as failed.
        One pass per image serves all candidates, except those of a detector that perturbs images (odin), whose
        candidates each need their own passes. A candidate that fits on `val` is fitted on one half of it, drawn with a
        fixed seed, and evaluated on the other half; the selected one is then fitted on all of it.
        Supervised detectors do not learn from the outliers here, since the same outliers evaluate them.

        `tuned` records the candidates and the images. The AUROC of the best is not an estimate for other images; never
        test on images that were used for tuning.
        """
        train, val = self._splits(train=train, val=val)
        tuning.tune(self, grid, train, val, self._images(outliers, "outliers"), progress)
        return self

    @property
    def fitted(self) -> bool:
        """True if every detector that needs fitting is fitted."""
        return all(detector.state for detector in self.detectors.values() if detector.fits_on)

    @property
    def shares(self) -> bool:
        """True if any detector reads the shared forward pass of unperturbed images."""
        return not all(detector.perturbs for detector in self.detectors.values())

    def needs(self, split: Split | None) -> frozenset[str]:
        """Return the activations that detectors fitting on `split` read; for None, those that scoring reads."""
        return needs_of(self.detectors.values(), split)

    def check_splits(self, train: ImageSet | None, val: ImageSet | None) -> None:
        """Raise, before any long computation, if a split cannot be used."""
        self.check_fit("train", train)
        self.check_fit("val", val)

    def check_fit(self, split: str, images: ImageSet | None) -> None:
        """Raise, before any long computation, if a split that detectors fit on is missing or cannot be used."""
        fitting = {name: detector for name, detector in self.detectors.items() if detector.fits_on == split}
        if fitting and images is None:
            raise ValueError(f"{', '.join(fitting)} must be fitted on the inliers' {split} split: pass {split}=")
        if images is not None:
            if not len(images):
                raise ValueError(f"the {split} split {images.name!r} is empty")
            for detector in fitting.values():
                detector.check_fit(len(images), images.labels is not None)

    def _check_train(self, activations: Activations) -> None:
        """Raise if a detector cannot be fitted on the activations of the training split's first images."""
        for detector in self.detectors.values():
            if detector.fits_on == "train":
                check_suits(detector, activations)

    def _check_val(self, activations: Activations) -> None:
        """Raise if a detector cannot be fitted on, or cannot score, the validation split's first images."""
        for detector in self.detectors.values():
            if detector.fits_on == "val" or not detector.perturbs:
                check_suits(detector, activations)

    def fit_from(
        self,
        table: Activations,
        labels: NDArray[np.int64] | None,
        split: Split,
        reduced: Mapping[str, Reduced] = NO_REDUCED,
    ) -> None:
        """Fit the detectors that fit on `split` from its activations, or from what is reduced, by label."""
        classes = None if labels is None else torch.from_numpy(labels)
        table = sort_blocks(table, self.network.statistics_names)
        for name, detector in self.detectors.items():
            if detector.fits_on == split:
                try:
                    if name in reduced:
                        reduced[name].fit(self.network.statistics_names)
                    else:
                        detector.fit(table, classes)
                except (ValueError, RuntimeError) as error:
                    error.add_note(f"while fitting {self.titles[name]} on {len(table)} images of the {split} split")
                    raise
                self._place(detector)

    def validate(self, table: Activations, name: str, own: Scores) -> None:
        """Score the inlier validation split from its activations.

        own: scores of the detectors that perturb images, which these activations do not determine.
        """
        self.validation = self.score_table(table, name, own)

    def score_table(self, table: Activations, name: str, own: Scores) -> Scores:
        """Return the scores of the set `name` from its activations, together with `own`."""
        table = dataclasses.replace(table, head=self.network.head)  # already on the device
        table = sort_blocks(table, self.network.statistics_names)
        parts = [self.score_activations(part.to(self.network.device)) for part in table.chunks()]
        scores = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]} | own
        return {key: finite(scores[key], self.titles[key], name) for key in self.detectors}

    def score(self, images: Any, progress: Listener | None = None) -> Scores:
        """Return scores by label, float64 [N], larger = more outlying; one forward pass per image.

        images: one image or many, as Pillow images, paths, arrays, tensors, a torch `Dataset` or `DataLoader`, a
            Hugging Face data set or an `ImageSet`; see `farout.data.as_image_set`.
        A detector that perturbs images (odin) costs a gradient and its own passes.
        """
        inputs = self._images(images)
        parts: list[Scores] = [{key: np.empty(0) for key in self.detectors}]
        parts += [self.score_batch(batch) for batch in iterate_batches(inputs, "score", progress)]
        scores = {key: np.concatenate([part[key] for part in parts]) for key in self.detectors}
        return {key: finite(values, self.titles[key], inputs.name) for key, values in scores.items()}

    def _images(self, images: Any, what: str = "images") -> ImageSet:
        """Convert a user's images to an `ImageSet`, with the network's number of channels for image files."""
        return as_image_set(images, channels=self.network.channels, what=what)

    def _splits(self, **splits: Any) -> tuple[ImageSet | None, ...]:
        return tuple(None if images is None else self._images(images, split) for split, images in splits.items())

    def threshold(self, recall: float = 0.95) -> dict[str, float]:
        """Return, per detector, the smallest score that at least `recall` of the validation inliers do not exceed."""
        if isinstance(recall, bool) or not isinstance(recall, int | float) or not 0 < recall <= 1:
            raise ValueError(f"recall must lie in (0, 1], got {recall!r}; use 0.95 instead of 95")
        check_validation(self.validation, "thresholds")
        return {key: threshold(scores, recall) for key, scores in self.validation.items()}

    def is_outlier(self, images: Any, recall: float = 0.95, progress: Listener | None = None) -> Flags:
        """Return, per detector, the images it flags as outliers: bool [N], score > `threshold(recall)`.

        At least `recall` of the validation inliers are not flagged. images: as for `score`.
        """
        limits = self.threshold(recall)
        scores = self.score(images, progress)
        return {key: scores[key] > limit for key, limit in limits.items()}

    def p_values(self, images: Any, progress: Listener | None = None) -> Scores:
        """Return, per detector, conformal p-values: (1 + #{validation scores >= score}) / (n + 1); small = outlying.

        An inlier that is exchangeable with the n validation images has p <= α with probability at most α, for any
        detector (Vovk et al. 2005; Bates et al. 2023): flagging p <= 0.05 as an outlier flags at most 5 % of
        inliers, on average over validation sets. No p is below 1 / (n + 1). The p-values are approximate for a
        detector that was fitted or tuned on the validation images, or learned to separate outliers from them.
        """
        check_validation(self.validation, "p-values")
        scores = self.score(images, progress)
        return {key: p_values(scores[key], reference) for key, reference in self.validation.items()}

    def only(self, label: str) -> Panel:
        """Return a panel of one member, with its fitted state and records."""
        panel = self.alone(label, self._known(label))
        panel.validation = {key: scores for key, scores in self.validation.items() if key == label}
        panel.tuned = {key: record for key, record in self.tuned.items() if key == label}
        panel.learned = {key: images for key, images in self.learned.items() if key == label}
        return panel

    def alone(self, label: str, detector: PostHoc) -> Panel:
        """Return a panel of this detector on the same network."""
        return Panel(self.network, {label: detector})

    def _known(self, label: str) -> PostHoc:
        if label not in self.detectors:
            raise unknown("detector of this panel:", label, self.detectors)
        return self.detectors[label]

    def __getitem__(self, name: str) -> Detector:
        """Return one member as a detector that reads images."""
        self._known(name)
        return Member(self, name)

    def activations(self, images: Tensor) -> Activations:
        """Return the activations that the detectors read, from one forward pass without gradients."""
        return forward(self.network, images, self.needs(None))

    @torch.inference_mode()
    def score_activations(self, activations: Activations) -> Scores:
        """Score activations with the detectors that do not perturb images."""
        plain = {key: detector for key, detector in self.detectors.items() if not detector.perturbs}
        return {key: as_scores(d.score(activations), len(activations), self.titles[key], d) for key, d in plain.items()}

    @torch.inference_mode()
    def score_perturbing(self, images: Tensor) -> Scores:
        """Score a batch with the detectors that perturb images, each with its own passes."""
        images = as_images(images, self.network.device)
        perturbing = {key: detector for key, detector in self.detectors.items() if detector.perturbs}
        passes = ((key, d, perturbed_pass(self.network, d, images)) for key, d in perturbing.items())
        return {
            key: as_scores(d.score(activations), len(images), self.titles[key], d) for key, d, activations in passes
        }

    def score_batch(self, images: Tensor, shared: Activations | None = None) -> Scores:
        """Score one batch; `shared` are its activations, if already computed."""
        if self.shares and shared is None:
            shared = self.activations(images)
        scores = self.score_perturbing(images) | ({} if shared is None else self.score_activations(shared))
        return {key: scores[key] for key in self.detectors}

    def score_perturbing_set(self, images: ImageSet, progress: Listener | None = None) -> Scores:
        """Score a whole set with the detectors that perturb images."""
        if not any(detector.perturbs for detector in self.detectors.values()):
            return {}
        parts = [self.score_perturbing(batch) for batch in iterate_batches(images, "score", progress)]
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}

    def _place(self, detector: PostHoc) -> None:
        """Move a detector's state to the network's device, as tensors that allow gradients."""
        with torch.inference_mode(False):
            normal = {key: value.clone() if value.is_inference() else value for key, value in detector.state.items()}
            detector.state = {key: value.to(self.network.device) for key, value in normal.items()}

    def save(self, path: str | Path) -> None:
        """Write the fitted state to one safetensors file; the network's weights are not included.

        A tensor that several detectors share (the bank of knn with several k) is written once, and shared after
        loading.
        """
        states = {name: detector.state for name, detector in self.detectors.items()}
        panel_state = saved.PanelState(states, self.validation, self.tuned, self.learned)
        saved.write(path, self.network.digest, self.detectors, panel_state)

    def export(self, path: str | Path, *, side: int | None = None) -> None:
        """Write the panel with its network to one ONNX file: images [N, C, H, W] in [0, 1] to scores and p-values.

        Outputs are "score" and "p_value" for one detector, "knn_score", "knn_p_value" and so on for several; p-values
        only if the panel was fitted with `val`. An error names detectors that cannot be exported, such as odin, which
        needs gradients. The model is checked with ONNX Runtime (`farout[onnx]`) before it is written.
        side: side of the images; by default the network's.
        """
        export(self, path, side)

    @classmethod
    def load(cls, path: str | Path, network: Network) -> Panel:
        """Read a panel that `save` wrote; `network` must be the one it was fitted with."""
        with saved.open_panel(path) as file:
            metadata = saved.read_metadata(file.metadata(), path)
        digest = network.digest
        if metadata["network"] != digest:
            digests = f"{metadata['network'][:12]}…, this one is {digest[:12]}…"
            raise ValueError(f"{path} was fitted with another network (digest {digests})")
        with saved.name_damaged_file(path):
            panel = cls(network, {name: saved.build_detector(spec) for name, spec in metadata["detectors"].items()})
        panel.load_state(path)
        return panel

    def load_state(self, path: str | Path) -> None:
        """Load the state that a panel of the same detectors saved; the caller ensures that the network is the same."""
        with torch.inference_mode(False):  # otherwise the tensors would not allow gradients
            panel_state = saved.read(path, self.detectors, self.network.device)
        self.validation, self.tuned, self.learned = panel_state.validation, panel_state.tuned, panel_state.learned
        for name, detector in self.detectors.items():
            detector.state = panel_state.states[name]
