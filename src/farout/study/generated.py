"""Generated sets of a study: their sources, built from the entries of the study file, and what budgets leave out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from farout.generators import Generator
from farout.generators.perceptual import check_blocks
from farout.rng import seed_of
from farout.study.budget import LIMITS
from farout.study.cells.generate import GenerateCell, SampleCell, TranslateCell
from farout.study.cells.near_ood import InformationCell, NearCell
from farout.study.cells.pool import Pool
from farout.study.generators import generator_from, recipe_cuts
from farout.study.networks import network_from
from farout.study.sources.generated import GeneratedImages
from farout.study.sources.generators import ObjectiveSource
from farout.study.sources.images import ImageSource, NamedImages, subset
from farout.study.sources.networks import JoinedNetworks, NetworkSource
from farout.study.spec import (
    SPLIT,
    BarSpec,
    Budget,
    EnsembleSpec,
    GeneratedSpec,
    NearSpec,
    SampledSpec,
    ShiftedSpec,
)

if TYPE_CHECKING:
    from farout.study.study import Inliers


_NARROW: list[Any] = ["lenet", *({"name": name, "width": 16} for name in ("alexnet", "vgg11", "resnet18"))]
_RECIPE = {"epochs": 100, "lr": 0.05, "batch": 128, "augment": "none"}
DEFAULT_ENSEMBLE = {
    "quick": EnsembleSpec.model_validate({"ensemble": _NARROW, "train": _RECIPE}),
    "standard": EnsembleSpec.model_validate({"ensemble": _NARROW, "train": _RECIPE}),
    "full": EnsembleSpec.model_validate(
        {"ensemble": ["lenet", "alexnet", "vgg11", "resnet18"], "train": {"preset": "raised_bar_mnist"}}
    ),
}
"""Ensembles of studies that name none, by budget: the paper's four networks for MNIST, narrower below the full one."""


def generated_from(spec: GeneratedSpec, inliers: Inliers, budget: Budget) -> GeneratedImages:
    """Return the source of a generated set. Raise for errors that can be found before any training."""
    if isinstance(spec, NearSpec):
        return GeneratedImages(_near(spec, inliers, budget))
    if isinstance(spec, ShiftedSpec):
        return GeneratedImages(_shifted(spec, inliers, budget))
    assert isinstance(spec, SampledSpec)
    return GeneratedImages(_sampled(spec, inliers, budget))


def _sampled(spec: SampledSpec, inliers: Inliers, budget: Budget) -> GenerateCell:
    generator = generator_from(spec.generator, inliers.train, inliers.test, budget, spec.seed, spec.title)
    _check_kind(generator.preview(), translates=False)
    return SampleCell(spec.title, generator, spec.count or LIMITS[budget].images, spec.seed)


def _near(spec: NearSpec, inliers: Inliers, budget: Budget) -> GenerateCell:
    pool = near_pool(spec, inliers, budget)
    interval = spec.bounds
    if interval is None:
        if inliers.val is None:
            raise ValueError(
                f"{spec.title}: the rule for the interval reads the inliers' val split, and there is none; {SPLIT}"
            )
        selecting = InformationCell(spec.title, pool, inliers.val, spec.seed)
    return NearCell(spec.title, pool, interval or selecting, spec.count or LIMITS[budget].images, spec.seed)


def near_pool(spec: NearSpec, inliers: Inliers, budget: Budget) -> Pool:
    """Return the generators of a Near-OoD set, one per λs, and the ensemble that measures their MI."""
    if spec.generator.weights:
        raise ValueError(f"{spec.title}: a generator is trained for every lambda_s; give its name, not a file")
    ensemble, features = _networks(spec, inliers, budget)
    lambdas = select_lambdas(spec.lambda_s, LIMITS[budget].lambdas)
    generators = []
    for value in lambdas:
        objective = ObjectiveSource("near", spec.lambda_p, value, ensemble, features, spec.pairing, spec.form)
        label = f"{spec.title}, λs = {value:g}"
        own = seed_of(spec.seed, "lambda_s", str(value))
        generators.append(generator_from(spec.generator, inliers.train, inliers.test, budget, own, label, objective))
    _check_kind(generators[0].preview(), translates=False)
    return Pool(tuple(generators), lambdas, ensemble)


def select_lambdas(values: Sequence[float], most: int | None) -> tuple[float, ...]:
    """Return at most so many of the values: evenly spaced, without the ends if there is room."""
    if most is None or len(values) <= most:
        return tuple(values)
    places = np.linspace(0, len(values) - 1, most + 2)[1:-1].round().astype(int)
    return tuple(values[place] for place in places)


def _shifted(spec: ShiftedSpec, inliers: Inliers, budget: Budget) -> GenerateCell:
    objective = None
    if not spec.generator.weights:
        ensemble, features = _networks(spec, inliers, budget)
        objective = ObjectiveSource(
            "shifted", spec.lambda_p, spec.lambda_s, ensemble, features, form=spec.form, lambda_c=spec.lambda_c
        )
    generator = generator_from(spec.generator, inliers.train, inliers.test, budget, spec.seed, spec.title, objective)
    _check_kind(generator.preview(), translates=True)
    images: ImageSource = NamedImages(spec.images) if spec.images else inliers.test
    if images.about.shape != inliers.test.about.shape:
        raise ValueError(
            f"{spec.title}: the images of {images.about.name} have the shape {images.about.shape}, and the generator "
            f"makes {inliers.test.about.shape}, as the inliers have"
        )
    most = spec.count or (None if budget == "full" else LIMITS[budget].images)
    return TranslateCell(spec.title, generator, subset(images, most), spec.seed)


def _networks(spec: BarSpec, inliers: Inliers, budget: Budget) -> tuple[NetworkSource, NetworkSource]:
    """Return the ensemble and the feature network."""
    ensemble = network_from(spec.ensemble or DEFAULT_ENSEMBLE[budget], inliers, budget, spec.seed)
    if not isinstance(ensemble, JoinedNetworks):
        raise ValueError(
            f"{spec.title}: mutual information needs an ensemble of two or more networks, got {ensemble.label}: "
            "ensemble: [lenet, resnet18, …]"
        )
    if spec.features is not None:
        features = network_from(spec.features, inliers, budget, spec.seed)
    else:
        features = next((one for one in ensemble.members if "vgg" in one.label.lower()), ensemble.members[0])
    if not features.about.block_names:
        check_blocks(features.preview())  # raises
    return ensemble, features


def _check_kind(generator: Generator, *, translates: bool) -> None:
    if generator.translates != translates:
        does, expected = (
            ("changes images", "samples new ones: dcgan")
            if generator.translates
            else ("samples new images", "changes images: pix2pix")
        )
        raise ValueError(f"the generator {generator.name} {does}; this set needs one that {expected}, …")


def generated_cuts(spec: GeneratedSpec, source: ImageSource, budget: Budget) -> list[str]:
    """Return what the budget leaves out of a generated set, as lines of text."""
    assert isinstance(source, GeneratedImages)
    cuts = []
    if isinstance(spec, NearSpec) and isinstance(source.cell, NearCell):
        used = source.cell.pool.lambdas
        if len(used) < len(spec.lambda_s):
            only = ", ".join(f"{value:g}" for value in used)
            cuts.append(
                f"{len(spec.lambda_s) - len(used)} of {len(spec.lambda_s)} generators of {spec.title}: λs = {only}"
            )
    cuts += recipe_cuts(source.cell.generators[0], f"the generators of {spec.title}")
    if isinstance(spec, BarSpec) and spec.ensemble is None and budget != "full" and not spec.generator.weights:
        cuts.append(f"width of the ensemble of {spec.title}: the paper's networks with 16 channels in place of 64")
    return cuts
