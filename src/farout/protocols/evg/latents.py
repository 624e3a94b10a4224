"""Generators whose latent `evg` searches: one per outlier set, and the features that tell its images from noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import TypeAdapter

from farout.generators import Generator
from farout.study.budget import SHARED
from farout.study.cells.cell import Cell, Entry
from farout.study.cells.features import FeaturesCell
from farout.study.cells.generate import SampleCell
from farout.study.cells.search import SearchCell
from farout.study.generators import generator_from, recipe_cuts
from farout.study.sources.found import FoundImages
from farout.study.sources.generated import GeneratedImages
from farout.study.sources.generators import GeneratorSource, LiveGenerator
from farout.study.sources.images import ImageSource, subset
from farout.study.sources.variations import TrainedLatent
from farout.study.spec import AnyGenerator, Budget, GeneratorSpec
from farout.study.study import Study, Trial
from farout.study.subjects.subject import Subject
from farout.variations import Latent
from farout.variations.variation import Variation

ROLE = "latent"
REAL, SAMPLES, FOUND = "real", "samples", "found"
"""Parts of the role: training images of the generator, its samples, and worst cases."""
MOST = 2_000
"""Largest number of real images and of samples whose features are compared."""


class GeneratedOutliers(NamedTuple):
    """Generator of one outlier set, and the images it is trained on."""

    generator: GeneratorSource
    images: ImageSource

    @classmethod
    def of(cls, latent: Latent, outliers: str, label: str, trial: Trial, budget: Budget) -> GeneratedOutliers:
        """Return the generator of a latent: one that exists, or one to be trained on the images of an outlier set."""
        images = trial.stressed(trial.outliers[outliers], SHARED[budget].train_images)
        title = f"{label} of {outliers}"
        if isinstance(latent.generator, Generator):
            return cls(LiveGenerator(latent.generator, title), images)
        spec = TypeAdapter[GeneratorSpec](AnyGenerator).validate_python(latent.generator)
        return cls(generator_from(spec, images, trial.inliers.test, budget, trial.seed, title), images)

    def variation(self, latent: Latent) -> Variation:
        """Return the variation that searches run in."""
        return TrainedLatent(self.generator) if latent.described else latent


def latent_cuts(label: str, variation: Variation, study: Study) -> list[str]:
    """Return what the budget leaves out of the training of a latent's generators, as lines of text."""
    if not isinstance(variation, Latent) or not variation.described:
        return []
    trial = study.trials[0]
    own = (GeneratedOutliers.of(variation, name, label, trial, study.budget) for name in trial.outliers)
    return [line for one in own for line in recipe_cuts(one.generator, f"the generator of {one.generator.label}")]


def latent_entries(
    protocol: str,
    trial: Trial,
    subjects: Sequence[Subject],
    searches: Sequence[Entry],
    latents: Mapping[tuple[str, str], GeneratedOutliers],
) -> Iterator[Entry]:
    """Yield the features of real images, samples and worst cases, by the first network of the study, if any."""
    network = next((subject.classifier for subject in subjects if subject.classifier), None)
    if network is None:
        return

    def entry(images: ImageSource, part: str, tags: Mapping[str, str]) -> Entry:
        return Entry(protocol, FeaturesCell(network, images), {**tags, "role": ROLE, "part": part})

    for (outliers, label), own in latents.items():
        real = subset(own.images, MOST)
        count = min(MOST, real.about.total)
        samples = GeneratedImages(SampleCell(f"samples of {own.generator.label}", own.generator, count, trial.seed))
        tags = {"network": network.label, "seed": str(trial.seed), "detector": "", "outliers": outliers}
        yield entry(real, REAL, {**tags, "variation": label})
        yield entry(samples, SAMPLES, {**tags, "variation": label})
    for search in searches:
        if (search.tags["outliers"], search.tags["variation"]) in latents:
            yield entry(FoundImages(_searched(search.cell), trial.inliers.test.about.shape), FOUND, search.tags)


def _searched(cell: Cell) -> SearchCell:
    assert isinstance(cell, SearchCell)
    return cell
