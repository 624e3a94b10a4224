"""Cells of `raised_bar`: scores and predictions on generated sets and on those that they are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from farout.detectors.posthoc.msp import MSP
from farout.generators.perceptual import Form
from farout.protocols.raised_bar.exposure import exposure_entries
from farout.protocols.raised_bar.logit_mask import logit_mask
from farout.protocols.raised_bar.sets import BarSets, features_of, members_of, plain_of
from farout.protocols.shared.budgets import IMAGES
from farout.protocols.shared.networks import classifiers
from farout.protocols.shared.pairs import scored
from farout.protocols.shared.selection import select
from farout.study.cells.cell import Cell, Entry
from farout.study.cells.features import FeaturesCell
from farout.study.cells.fit_perturbed import build_posthoc_fit_cell
from farout.study.cells.near_ood import InformationCell, NearCell
from farout.study.cells.perceptual import PerceptualCell
from farout.study.cells.predict import PredictCell
from farout.study.cells.score import ScoreCell
from farout.study.members import ensemble_of, member_cells
from farout.study.quality import MOST
from farout.study.sources.generated import GeneratedImages
from farout.study.sources.images import ImageSource, NamedImages, ShiftedImages, subset
from farout.study.sources.networks import NetworkSource, RestrictedNetwork
from farout.study.spec import Budget, DataSpec
from farout.study.study import Trial
from farout.study.subjects.posthoc import PostHocSubject

if TYPE_CHECKING:
    from farout.protocols.raised_bar.plan import RaisedBar

CHANGED: dict[Budget, int | None] = {"quick": 500, "standard": 2_000, "full": None}
"""Largest number of test images that are compared with their shifted and corrupted copies."""
SEED = 0
"""Seed of the corruptions, the same as in sets that `farout corrupt` writes."""
SEPARATOR = "\n"
"""Separator of the names of classes in a tag."""
TEST, NEAR, SHIFTED, CORRUPTION = "test", "near", "shifted", "corruption"
CONVENTIONAL, PLAIN, NOISE, TRAINING = "conventional", "plain generator", "uniform noise", "training"
"""Kinds of image sets that figures compare."""


class TrialPlan:
    """Builder of the cells of one trial."""

    def __init__(self, protocol: RaisedBar, trial: Trial, sets: BarSets, budget: Budget) -> None:
        self.protocol, self.trial, self.sets, self.budget = protocol, trial, sets, budget
        self.images, self.changed = IMAGES[budget], CHANGED[budget]
        self.subjects = select(trial, protocol.detectors)

    def entries(self) -> Iterator[Entry]:
        """Yield the scores of outliers, then the cells of every generated set, of calibration and of exposure."""
        outliers = {**self.sets.near, **self.sets.compared}
        yield from scored(self.protocol.name, self.trial, outliers, self.images, self.protocol.detectors)
        for label, images in self.sets.near.items():
            yield from self._near(label, images)
        for label, images in self.sets.shifted.items():
            yield from self._shifted(label, images)
        for label, images in self.sets.plain.items():
            yield self._entry(images.cell, role="set", set=label, kind=PLAIN)
        for label, network in classifiers(self.subjects).items():
            yield from self._calibration(label, network)
        if self.protocol.exposure:
            for tags, cell in exposure_entries(self.protocol.exposure, self.trial, self.subjects, outliers, self):
                yield self._entry(cell, **tags)

    # Generated sets

    def _near(self, label: str, images: GeneratedImages) -> Iterator[Entry]:
        yield from self._made(label, images, NEAR)
        if information := self._information(images):
            yield self._entry(information, role="information", set=label, kind=NEAR)
        known = self.trial.stressed(images, self.images)
        if self.sets.sanity:
            yield from self._sanity(self.sets.sanity, label, NEAR, known)
            if ensemble := ensemble_of(images):
                yield self._entry(PredictCell(ensemble, known), role="reference", set=label, kind=NEAR)
        others = {
            name: (PLAIN if name in self.sets.plain else CONVENTIONAL, source)
            for name, source in self.sets.compared.items()
        }
        yield from self._features(label, images, NEAR, others)

    def _information(self, images: GeneratedImages) -> InformationCell | None:
        """Return the cell that measures mutual information; the set's own if that has selected its interval."""
        cell, val = images.cell, self.trial.inliers.val
        assert isinstance(cell, NearCell)
        if isinstance(cell.interval, InformationCell) or val is None:
            return cell.interval if isinstance(cell.interval, InformationCell) else None
        return InformationCell(cell.label, cell.pool, val, cell.seed)

    def _shifted(self, label: str, images: GeneratedImages) -> Iterator[Entry]:
        yield from self._made(label, images, SHIFTED)
        changed, originals = self._pair(images)
        if self.sets.sanity:
            yield from self._sanity(self.sets.sanity, label, SHIFTED, changed)
        others: dict[str, tuple[str, ImageSource]] = {
            shift.name: (CORRUPTION, ShiftedImages(self._originals(images), shift, SEED))
            for shift in self.protocol.corruptions
        }
        yield from self._features(label, images, SHIFTED, others)
        if known := self._known_features(images):
            network, form = known
            copies = {label: (SHIFTED, changed)} | self._corrupted(originals)
            for name, (kind, source) in copies.items():
                cell = PerceptualCell(network, source, originals, form)
                yield self._entry(cell, role="perceptual", set=label, of=name, kind=kind)

    def _made(self, label: str, images: GeneratedImages, kind: str) -> Iterator[Entry]:
        """Yield the cell of a generated set, and the predictions of its ensemble's members on test images."""
        yield self._entry(images.cell, role="set", set=label, kind=kind)
        for cell in member_cells(images, self._test):
            yield self._entry(cell, role="member", network=cell.network.label, set=label, kind=kind)

    @property
    def _test(self) -> ImageSource:
        """Inlier test images, at most as many as the budget allows."""
        return self.trial.stressed(self.trial.inliers.test, self.images)

    def _sanity(self, ensemble: NetworkSource, label: str, kind: str, images: ImageSource) -> Iterator[Entry]:
        """Yield the predictions of the sanity ensemble on a generated set, and on test images."""
        classes = SEPARATOR.join(self.trial.inliers.test.about.classes)
        for of, source in ((kind, images), (TEST, self._test)):
            yield self._entry(PredictCell(ensemble, source), role="sanity", set=label, kind=of, classes=classes)

    def _features(
        self, label: str, images: GeneratedImages, kind: str, others: dict[str, tuple[str, ImageSource]]
    ) -> Iterator[Entry]:
        """Yield the features of a generated set and of all that its FID is compared with, of equally many images."""
        known, plain = self._known_features(images), plain_of(images, self.trial)
        train = self.trial.inliers.train
        if known is None or train is None:
            return
        compared: dict[str, tuple[str, ImageSource]] = {
            label: (kind, images),
            TEST: (TEST, self.trial.inliers.test),
            **({PLAIN: (PLAIN, plain)} if plain else {}),
            **others,
        }
        sources = {name: (of, self.trial.stressed(source, None)) for name, (of, source) in compared.items()}
        count = min(MOST, train.about.total, *(source.about.total for _, source in sources.values()))
        channels, side, _ = images.about.shape
        noise = DataSpec(name="noise", options={"side": side, "channels": channels, "n": count})
        sources |= {NOISE: (NOISE, NamedImages(noise)), TRAINING: (TRAINING, train)}
        for name, (of, source) in sources.items():
            cell = FeaturesCell(known[0], subset(source, count))
            yield self._entry(cell, role="features", set=label, of=name, kind=of)

    def _known_features(self, images: GeneratedImages) -> tuple[NetworkSource, Form] | None:
        """Return the network and the form of distances: those of the set's losses or, of a generator from a file, of
        another set's, else a network of the sanity ensemble or of the study; None if there is no network."""
        trained = [features_of(one) for one in (images, *self.sets.near.values(), *self.sets.shifted.values())]
        found = next((one for one in trained if one), None)
        networks = [*members_of(self.sets.sanity), *classifiers(self.subjects).values()]
        return found or next(((network, "unit") for network in networks if network.about.block_names), None)

    # Calibration

    def _calibration(self, label: str, network: NetworkSource) -> Iterator[Entry]:
        """Yield the confidence and the prediction of a network on test images, their corruptions and Shifted sets.

        On a set of some of the classes, the network has the logits of these alone; the tag "logits" has their number.
        """
        for name, (kind, images) in self._calibrated.items():
            mask = logit_mask(self.trial.inliers.test.about, images.about) if kind == CONVENTIONAL else ()
            masked = RestrictedNetwork(network, mask) if mask else network
            tags = {"network": label, "of": name, "kind": kind, **({"logits": str(len(mask))} if mask else {})}
            yield self._entry(ScoreCell(self._confidence(masked), images), role="confidence", **tags)
            yield self._entry(PredictCell(masked, images), role="prediction", **tags)

    def _confidence(self, network: NetworkSource) -> PostHocSubject:
        """Return the confidence of a network, which shares its fit cell with a detector of the study where it can.

        A network with some of its logits cannot classify the validation images, so that it has no use for them.
        """
        splits = self.trial.inliers
        train, val = (None, None) if isinstance(network, RestrictedNetwork) else (splits.train, splits.val)
        return PostHocSubject("msp", build_posthoc_fit_cell(network, MSP(), train, val, None))

    @cached_property
    def _calibrated(self) -> dict[str, tuple[str, ImageSource]]:
        """Image sets on which networks are calibrated or not: test, further sets, corruptions, and Shifted sets."""
        first = next(iter(self.sets.shifted.values()), None)
        originals = self._pair(first)[1] if first else self.trial.stressed(self.trial.inliers.test, self.changed)
        found: dict[str, tuple[str, ImageSource]] = {TEST: (TEST, originals)}
        for label, spec in self.protocol.shifts.items():
            found[label] = CONVENTIONAL, self.trial.stressed(NamedImages(spec), self.changed)
        found |= self._corrupted(originals)
        return found | {name: (SHIFTED, self._pair(images)[0]) for name, images in self.sets.shifted.items()}

    def _corrupted(self, originals: ImageSource) -> dict[str, tuple[str, ImageSource]]:
        """Return the corrupted copies of images by the name of the corruption."""
        return {shift.name: (CORRUPTION, ShiftedImages(originals, shift, SEED)) for shift in self.protocol.corruptions}

    def _pair(self, images: GeneratedImages) -> tuple[ImageSource, ImageSource]:
        """Return equally many images of a Shifted set and their originals, in the same order."""
        return self.trial.stressed(images, self.changed), self.trial.stressed(self._originals(images), self.changed)

    def _originals(self, images: GeneratedImages) -> ImageSource:
        assert images.cell.base is not None  # a Shifted set is translated
        return images.cell.base

    def _entry(self, cell: Cell, **tags: str) -> Entry:
        names = dict.fromkeys(("network", "detector", "outliers", "set", "of", "kind", "exposure"), "")
        return Entry(self.protocol.name, cell, {**names, "seed": str(self.trial.seed), **tags})
