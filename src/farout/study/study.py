"""Studies: the image sources, networks and subjects that are built from a study file."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from farout.core import Detector, PostHoc
from farout.data import outlier_splits
from farout.data.catalog import DATASETS
from farout.data.patterns import is_pattern, title_of
from farout.data.shared import count_equal
from farout.detectors.catalog import create_any
from farout.detectors.fitted_state import accepted_arguments
from farout.detectors.panel.labels import label_detectors
from farout.detectors.panel.provenance import count_shared
from farout.detectors.trained.detector import TrainedDetector
from farout.registry import UnknownName
from farout.study.budget import SHARED
from farout.study.cells.fit_perturbed import build_posthoc_fit_cell
from farout.study.cuts import cut_to_budget, drop_unsuited_detectors
from farout.study.generated import generated_cuts, generated_from
from farout.study.networks import depends_on_seed, network_from
from farout.study.sources.images import (
    CutImages,
    DerivedImages,
    ImageSource,
    JoinedImages,
    MatchedImages,
    NamedImages,
    subset,
)
from farout.study.sources.networks import NetworkSource, forget_loaded
from farout.study.spec import (
    Budget,
    DataSpec,
    DetectorSpec,
    GeneratedSpec,
    InliersSpec,
    ProtocolSpec,
    StudySpec,
    suggest_plugin,
)
from farout.study.subjects.images import ImageSubject
from farout.study.subjects.posthoc import PostHocSubject
from farout.study.subjects.subject import Subject

ImagesSpec = DataSpec | GeneratedSpec
"""Entry of an image set in a study file."""
S = TypeVar("S", bound=ImagesSpec)


@dataclass(frozen=True)
class Inliers:
    """Inlier splits: the images that detectors are fitted on, and those they are tested on."""

    train: ImageSource | None
    val: ImageSource | None
    test: ImageSource
    outliers: ImageSource | None = None
    """Outliers that supervised detectors are fitted on; never among those tested."""
    auxiliary_outliers: tuple[ImageSource, ...] = ()
    """Sets of outliers that trained detectors learn from; never among those tested."""

    @property
    def splits(self) -> dict[str, ImageSource]:
        """Images that a detector may be fitted on, by split."""
        joined = JoinedImages(self.auxiliary_outliers) if len(self.auxiliary_outliers) > 1 else None
        auxiliary = joined or next(iter(self.auxiliary_outliers), None)
        splits = {"train": self.train, "val": self.val, "outliers": self.outliers, "auxiliary_outliers": auxiliary}
        return {name: source for name, source in splits.items() if source is not None}


@dataclass(frozen=True)
class Trial:
    """One seed of a study: its images, and the detectors on the networks trained with it."""

    seed: int
    inliers: Inliers
    outliers: dict[str, ImageSource]
    subjects: list[Subject] = field(default_factory=list)

    def stressed(self, images: ImageSource, count: int | None) -> ImageSource:
        """Return at most `count` of the images, in the inliers' shape."""
        return subset(MatchedImages(images, self.inliers.test.about.shape), count)

    def check(self) -> None:
        """Raise for errors that can be found before any work: duplicate names, unreadable sets, splits that do not
        suit fitting."""
        self._check_names()
        for images in (self.inliers.test, *self.outliers.values()):
            images.about  # noqa: B018 reads every image once
        for split, source in (("train", self.inliers.train), ("val", self.inliers.val)):
            if source is not None and source.about.fingerprint == self.inliers.test.about.fingerprint:
                raise ValueError(f"the inliers' {split} and test splits are the same images; give each its own")
        labeled = [s.about for s in (self.inliers.train, self.inliers.val, self.inliers.test) if s and s.about.labeled]
        longest = max((about.classes for about in labeled), key=len, default=())
        if any(about.classes != longest[: len(about.classes)] for about in labeled):
            found = "; ".join(f"{about.name}: {', '.join(about.classes)}" for about in labeled)
            raise ValueError(f"the inliers' splits must have the same classes, got {found[:300]}")
        self._check_outliers()
        for subject in self.subjects:
            subject.check()

    def _check_outliers(self) -> None:
        """Raise if detectors would be fitted on outliers that they are tested on."""
        if self.inliers.outliers is not None and self.inliers.val is None:
            raise ValueError(
                "validation_outliers: detectors learn to tell them from the inliers' val split, and these inliers have "
                "none; add a val or a train split"
            )
        learned = [("validation_outliers", source) for source in (self.inliers.outliers,) if source]
        learned += [("auxiliary_outliers", source) for source in self.inliers.auxiliary_outliers]
        tested = {f"in the outlier set {name!r}": images for name, images in self.outliers.items()}
        tested["among the inliers that are tested"] = self.inliers.test
        for key, source in learned:
            for place, images in tested.items():
                if count := self._count_shared(source, images):
                    raise ValueError(f"{key}: {count:,} of them are {place}; give others")

    def _count_shared(self, learned: ImageSource, tested: ImageSource) -> int:
        """Return the number of images that two sets share: by their origin and, beyond the built-in sets, by pixels."""
        one, other = learned.preview(), tested.preview()
        if (count := count_shared(one, other)) or (_is_builtin(learned) and _is_builtin(tested)):
            return count
        return count_equal(one, other, self.inliers.test.about.shape)

    def _check_names(self) -> None:
        """Raise if two results would have the same name."""
        names = [(subject.network, subject.label) for subject in self.subjects]
        for network, label in dict.fromkeys(name for name in names if names.count(name) > 1):
            where = f" on {network!r}" if network else ""
            raise ValueError(f"two detectors{where} are called {label!r}; give each (or its network) a label:")
        if "" in self.outliers:  # plans use the empty name for the inliers
            raise ValueError("an outlier set needs a name, got an empty one; give it a label:")


@dataclass(frozen=True)
class Study:
    """Study: the detectors under test, the images, the protocols and the budget."""

    name: str
    trials: list[Trial]
    """One per seed."""
    protocols: list[ProtocolSpec]
    budget: Budget
    spec: Any = field(default=None)
    """The study file's content, for the record."""
    cuts: list[str] = field(default_factory=list)
    """Texts on what the budget leaves out."""
    notes: list[str] = field(default_factory=list)
    """Caveats that a reader of the results must know."""
    device: str = "cpu"
    """Device that the run uses; only measurements of time depend on it."""
    machine: str = ""
    """Name of the machines that measurements of time belong to; empty for this one."""

    def check(self) -> None:
        """Raise for errors that can be found before any work."""
        for trial in self.trials:
            trial.check()


def from_spec(spec: StudySpec) -> Study:
    """Build the study of a study file: load and check everything that it names, before any long work."""
    forget_loaded()
    study = build(spec)
    study.check()
    return study


def build(spec: StudySpec) -> Study:
    """Build the study of a study file without the checks that need its images."""
    cut, cuts = cut_to_budget(spec)
    trials = [_trial(cut, seed) for seed in cut.seeds]
    return Study(
        spec.name,
        trials,
        spec.protocols,
        spec.budget,
        spec.model_dump(mode="json"),
        [*cuts, *_generated_cuts(cut, trials[0]), *drop_unsuited_detectors(trials)],
    )


def _trial(spec: StudySpec, seed: int) -> Trial:
    """Return the images and subjects of one seed.

    Networks with existing weights, and detectors that read images and whose `fit` takes no seed, belong to the first
    seed only, unless other seeds draw other images.
    """
    splits = {name: getattr(spec.inliers, name) for name in ("train", "val", "test")}
    named = InliersSpec(**{name: data and seeded(data, seed) for name, data in splits.items()})
    inliers = inliers_from(named, spec.budget)
    shared = SHARED[spec.budget]
    if spec.validation_outliers:
        learned = _learned(spec.validation_outliers, inliers, spec.budget, seed)
        inliers = replace(inliers, outliers=subset(learned, shared.val_images))
    auxiliary = [_learned(data, inliers, spec.budget, seed) for data in spec.auxiliary_outliers]
    inliers = replace(inliers, auxiliary_outliers=tuple(subset(one, shared.train_images) for one in auxiliary))
    named_outliers = [seeded(data, seed) for data in spec.outliers or own_outliers(spec.inliers.test)]
    outliers = outliers_from(named_outliers, inliers, spec.budget)
    new = seed == spec.seeds[0] or named != spec.inliers
    networks = [
        network_from(item, inliers, spec.budget, seed) for item in spec.networks if new or depends_on_seed(item)
    ]
    return Trial(seed, inliers, outliers, _subjects(spec, inliers, networks, new, seed))


def _learned(data: ImagesSpec, inliers: Inliers, budget: Budget, seed: int) -> ImageSource:
    """Return outliers that detectors learn from, in the inliers' shape."""
    return MatchedImages(images_from(seeded(data, seed), inliers, budget), inliers.test.about.shape)


def _is_builtin(source: ImageSource) -> bool:
    """Return True for a data set that farout knows by name, or one derived from it."""
    while isinstance(source, DerivedImages):
        source = source.source
    return isinstance(source, NamedImages) and source.spec.name in DATASETS


def _generated_cuts(spec: StudySpec, trial: Trial) -> list[str]:
    """Return what the budget leaves out of the generated sets."""
    generated = [(item, trial.outliers[item.title]) for item in spec.outliers if isinstance(item, GeneratedSpec)]
    return [line for item, source in generated for line in generated_cuts(item, source, spec.budget)]


def seeded(data: S, seed: int) -> S:
    """Return the set with this seed, if sets of that name take a seed and the study sets none."""
    if (
        isinstance(data, GeneratedSpec)
        or data.name not in DATASETS
        or "seed" not in inspect.signature(DATASETS[data.name]).parameters
    ):
        return data
    return data.model_copy(update={"options": {"seed": seed, **data.options}})


def own_outliers(test: DataSpec) -> list[DataSpec]:
    """Return the outlier splits that belong to the inliers' data set."""
    if test.name not in DATASETS:
        return []
    return [DataSpec(name=test.name, split=split, options=test.options) for split in outlier_splits(test.name)]


def outliers_from(specs: Sequence[ImagesSpec], inliers: Inliers, budget: Budget) -> dict[str, ImageSource]:
    """Return the outlier sets by label. Raise for duplicate labels."""
    sources: dict[str, ImageSource] = {}
    for spec in specs:
        label = _label(spec)
        if label in sources:
            raise ValueError(f"two outlier sets are called {label!r}; give each a label: {{name: …, label: another}}")
        sources[label] = images_from(spec, inliers, budget)
    return sources


def _label(spec: ImagesSpec) -> str:
    if isinstance(spec, GeneratedSpec):
        return spec.title
    shown = title_of(spec.name) if is_pattern(spec.name) else Path(spec.name).name
    name = shown.removesuffix(".npz").removesuffix(".tar")
    return spec.label or (name if spec.split == "test" else f"{name}:{spec.split.removeprefix('test/')}")


def images_from(spec: ImagesSpec, inliers: Inliers, budget: Budget) -> ImageSource:
    """Return the source of an image set that a study names: images that exist, or that the study generates."""
    return generated_from(spec, inliers, budget) if isinstance(spec, GeneratedSpec) else NamedImages(spec)


def inliers_from(spec: InliersSpec, budget: Budget) -> Inliers:
    """Return the inlier splits; without a validation split, a tenth of the training images serves as one."""
    shared, test = SHARED[budget], NamedImages(spec.test)
    val = NamedImages(spec.val) if spec.val else None
    if spec.train is None:
        return Inliers(None, val, test)
    train = NamedImages(spec.train)
    fitting: ImageSource = train if val else CutImages(train, validation=False)
    held_out: ImageSource = val or CutImages(train, validation=True)
    return Inliers(subset(fitting, shared.train_images), subset(held_out, shared.val_images), test)


def _detector(item: DetectorSpec) -> PostHoc | Detector:
    try:
        with suggest_plugin():
            return create_any(item.name, **item.params)
    except UnknownName:
        raise
    except (ImportError, TypeError, ValueError) as error:
        params = {key: value for key, value in item.params.items() if key != "headers"}  # they may hold secrets
        raise ValueError(f"detector {item.name} with {params or 'no parameters'}: {error}") from error


def _learns_from(split: str, detector: PostHoc | Detector) -> bool:
    if isinstance(detector, PostHoc):
        return split == "outliers" and detector.supervised
    return split in accepted_arguments(detector)


def _subjects(spec: StudySpec, inliers: Inliers, networks: list[NetworkSource], new: bool, seed: int) -> list[Subject]:
    detectors = [(item, _detector(item)) for item in spec.detectors]
    post_hoc = [(item, detector) for item, detector in detectors if isinstance(detector, PostHoc)]
    if post_hoc and not spec.networks:
        names = ", ".join(item.name for item, _ in post_hoc)
        raise ValueError(f"{names} read a network's activations, and the study {spec.name} has no networks:")
    for key, split in (("validation_outliers", "outliers"), ("auxiliary_outliers", "auxiliary_outliers")):
        if getattr(spec, key) and not any(_learns_from(split, detector) for _, detector in detectors):
            raise ValueError(f"{key}: no detector of the study {spec.name} learns from outliers: leave them out")
    unnamed = [detector for item, detector in post_hoc if item.label is None]
    labels = iter(label_detectors(unnamed) if unnamed else ())
    named = [(item.label or next(labels), detector) for item, detector in post_hoc]
    subjects: list[Subject] = []
    for network in networks:
        for name, detector in named:
            fit = build_posthoc_fit_cell(network, detector, inliers.train, inliers.val, inliers.outliers)
            subjects.append(PostHocSubject(name, fit))
    readers = [
        (item, detector)
        for item, detector in detectors
        if isinstance(detector, Detector) and (new or (inliers.train and "seed" in accepted_arguments(detector)))
    ]
    return subjects + [ImageSubject(_title(item, one), item, inliers.splits, seed) for item, one in readers]


def _title(item: DetectorSpec, detector: Detector) -> str:
    """Return the name of a detector in tables, with its preset if it is trained."""
    return item.label or (detector.label if isinstance(detector, TrainedDetector) else item.name)
