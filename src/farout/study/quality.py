"""Quality of a generated set: its FID beside those of a plain generator and of uniform noise.

A set is called undertrained if its FID to the training images is more than half of that of uniform noise, all on the
same features and of equally many images: it is then nearer to noise than to images.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from farout.metrics import fid
from farout.study.cells.features import FeaturesCell, read_features
from farout.study.cells.generate import GenerateCell, SampleCell, TranslateCell
from farout.study.cells.near_ood import NearCell
from farout.study.cells.train_generator import TrainedGenerator
from farout.study.sources.generated import GeneratedImages
from farout.study.sources.generators import ObjectiveSource
from farout.study.sources.images import ImageSource, NamedImages, subset
from farout.study.sources.networks import NetworkSource
from farout.study.spec import DataSpec

if TYPE_CHECKING:
    from farout.study.store import Store
    from farout.study.study import Inliers

UNDERTRAINED = 0.5
"""Largest FID of a set that is not undertrained, as a fraction of that of uniform noise."""
MOST = 5_000
"""Largest number of images that a FID is computed of."""
PLAIN, NOISE, TRAINING = "plain", "noise", "training"


class Quality(NamedTuple):
    """FID of a generated set to the training images, beside others."""

    features: str
    """Name of the feature network."""
    images: int
    """Number of images of each set."""
    fid: float
    plain: float
    """FID of the same generator trained without the semantic and the perceptual loss."""
    noise: float
    """FID of uniform noise."""

    @property
    def undertrained(self) -> bool:
        """True if the set is nearer to noise than to images."""
        return self.fid > UNDERTRAINED * self.noise


@dataclass(frozen=True)
class QualityPlan:
    """Cells that the quality of a generated set is computed from."""

    network: NetworkSource
    generated: GeneratedImages
    plain: GeneratedImages
    train: ImageSource

    @cached_property
    def cells(self) -> dict[str, FeaturesCell]:
        """Features of equally many images of every set."""
        channels, side, _ = self.generated.about.shape
        count = min(MOST, self.generated.about.total, self.train.about.total)
        noise = DataSpec(name="noise", options={"side": side, "channels": channels, "n": count})
        sets = {"generated": self.generated, PLAIN: self.plain}
        sources: dict[str, ImageSource] = {name: subset(source, count) for name, source in sets.items()}
        sources |= {NOISE: NamedImages(noise), TRAINING: subset(self.train, count)}
        return {name: FeaturesCell(self.network, source) for name, source in sources.items()}

    def measure(self, store: Store) -> Quality:
        """Return the quality, from stored features."""
        features = {name: read_features(store, cell.id) for name, cell in self.cells.items()}
        real = features.pop(TRAINING)
        distances = {name: fid(rows, real) for name, rows in features.items()}
        return Quality(self.network.label, len(real), distances["generated"], distances[PLAIN], distances[NOISE])


def plan_quality(images: GeneratedImages, inliers: Inliers) -> QualityPlan | None:
    """Return the plan for a set of the raised bar; None for a set whose generator is not trained with features."""
    trained = [one for one in images.cell.generators if isinstance(one, TrainedGenerator)]
    network = trained[0].cell.objective.features if trained else None
    if network is None or inliers.train is None:
        return None
    cell = replace(trained[0].cell, label=f"{images.cell.label}, plain", objective=ObjectiveSource())
    return QualityPlan(
        network, images, GeneratedImages(_plain(images.cell, replace(trained[0], cell=cell))), inliers.train
    )


def _plain(cell: GenerateCell, generator: TrainedGenerator) -> GenerateCell:
    """Return the same set of a generator that is trained without the losses of the raised bar."""
    if isinstance(cell, TranslateCell):
        return replace(cell, label=generator.label, generator=generator)
    assert isinstance(cell, NearCell)
    return SampleCell(generator.label, generator, cell.count, cell.seed)
