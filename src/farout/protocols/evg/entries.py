"""Cells of `evg`: searches, the scores they are compared with, and other detectors' scores of the worst cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from farout.generators import Generator
from farout.protocols.evg.landscape import ENDS, POINTS
from farout.protocols.evg.latents import GeneratedOutliers, latent_entries
from farout.protocols.shared.networks import classified
from farout.protocols.shared.selection import select
from farout.search import SEARCHES, Search
from farout.study.cells.cell import Entry
from farout.study.cells.score import ScoreCell
from farout.study.cells.search import SearchCell
from farout.study.sources.found import FoundImages
from farout.study.sources.images import FirstImages, ImageSource, RepeatedImages
from farout.study.spec import Budget
from farout.study.study import Trial
from farout.study.subjects.subject import Subject
from farout.variations import Latent
from farout.variations.variation import Variation

if TYPE_CHECKING:
    from farout.protocols.evg.plan import Evg


class Effort(NamedTuple):
    """Size of the searches that a budget allows."""

    chains: int
    steps: int
    attack_steps: int
    """Steps of the l_inf attack."""
    inliers: int | None
    """Inlier test images that the worst cases are compared with; None = all."""


EFFORT: dict[Budget, Effort] = {
    "quick": Effort(chains=64, steps=50, attack_steps=50, inliers=2_000),
    "standard": Effort(chains=256, steps=300, attack_steps=300, inliers=10_000),
    "full": Effort(chains=5_000, steps=2_000, attack_steps=20_000, inliers=None),
}


HALVINGS = 10
"""Number of times that the l_inf attack halves its step."""


class TrialPlan:
    """Builder of the cells of one trial."""

    def __init__(self, protocol: Evg, trial: Trial, effort: Effort, budget: Budget) -> None:
        self.protocol, self.trial, self.effort, self.budget = protocol, trial, effort, budget
        self.inliers = trial.stressed(trial.inliers.test, effort.inliers)
        self.subjects = select(trial, protocol.detectors)
        val = trial.inliers.val if protocol.standardize_on == "val" else None
        self.latents: dict[tuple[str, str], GeneratedOutliers] = {}
        self.reference, self.split = (val, "val") if val else (self.inliers, "test")

    def entries(self) -> Iterator[Entry]:
        """Yield the scores of unchanged images, then the searches, then other detectors' scores of the worst cases."""
        outliers = {name: self._bases(images) for name, images in self.trial.outliers.items()}
        for subject in self.subjects:
            yield self._scored(subject, self.inliers, role="inliers")
            yield from (
                self._scored(subject, images, role="outliers", outliers=name) for name, images in outliers.items()
            )
        yield from classified(self.protocol.name, self.trial.seed, self.subjects, self.inliers)
        searches = [search for name, images in outliers.items() for search in self._searches(name, images)]
        yield from searches
        yield from latent_entries(self.protocol.name, self.trial, self.subjects, searches, self.latents)
        if self.protocol.control:
            yield from self._searches("", self._bases(self.trial.inliers.test))
        if self.protocol.landscape is not None:
            yield from self._landscape(self.protocol.landscape)
        if self.protocol.transfer:
            yield from (entry for search in searches for entry in self._transferred(search))

    def _bases(self, images: ImageSource) -> ImageSource:
        return FirstImages(self.trial.stressed(images, None), self.effort.chains)

    def _searches(self, name: str, images: ImageSource) -> Iterator[Entry]:
        """Yield the searches that vary these images: the outlier set of this name, or inliers if it is empty."""
        for label, unsized in self.protocol.variations.items():
            if not unsized.conditional and not name:
                continue
            variation = self._suited(label, unsized, name)
            for method, search, steps in self._methods(variation):
                for subject in self.subjects:
                    bases = images if variation.conditional else None
                    chains = images.about.total if variation.conditional else self.effort.chains
                    cell = SearchCell(
                        subject, variation, bases, chains, search, steps, self.trial.seed,
                        ScoreCell(subject, self.reference),
                    )  # fmt: skip
                    tags = {"outliers": name, "variation": label, "method": method, "standardized_on": self.split}
                    yield self._entry(subject, cell, role="search" if name else "control", **tags)

    def _suited(self, label: str, variation: Variation, name: str) -> Variation:
        """Return the variation for this outlier set; a latent whose generator is described gets one trained on it."""
        suited = variation.suited(self.inliers.about.shape)
        if not isinstance(suited, Latent) or not (suited.described or isinstance(suited.generator, Generator)):
            return suited
        own = GeneratedOutliers.of(suited, name, label, self.trial, self.budget)
        self.latents[name, label] = own
        return own.variation(suited)

    def _methods(self, variation: Variation) -> Iterator[tuple[str, Search, int]]:
        if variation.name == "pixel":
            steps, radius = self.effort.attack_steps, variation.params["radius"]
            attack = SEARCHES.create("zeroth_order", halve_every=max(1, steps // HALVINGS), radius=radius)
            yield attack.name, attack, steps
        else:
            yield from ((label, search, self.effort.steps) for label, search in self.protocol.methods.items())

    def _landscape(self, variation: Variation) -> Iterator[Entry]:
        """Yield the scores of the first outlier over two coordinates, and chains of every method from there."""
        name, images = next(iter(self.trial.outliers.items()))
        tags = {"outliers": name, "variation": variation.label, "axes": "\n".join(variation.coordinates)}
        methods: dict[str, Search] = self.protocol.methods
        parts = [("landscape", POINTS, SEARCHES.create("random"), 0)]
        parts += [(f"landscape:{method}", ENDS, search, self.effort.steps) for method, search in methods.items()]
        for subject in self.subjects:
            for role, chains, search, steps in parts:
                cell = SearchCell(
                    subject, variation.suited(self.inliers.about.shape), RepeatedImages(self._bases(images), chains),
                    chains, search, steps, self.trial.seed, ScoreCell(subject, self.reference),
                )  # fmt: skip
                yield self._entry(subject, cell, role=role, **tags)

    def _transferred(self, search: Entry) -> Iterator[Entry]:
        """Yield the scores that all other detectors of the trial give to one detector's worst cases."""
        cell = search.cell
        assert isinstance(cell, SearchCell)
        images = FoundImages(cell, self.inliers.about.shape)
        tags = {key: search.tags[key] for key in ("outliers", "variation", "method")}
        against = {"against": cell.subject.label, "against_network": cell.subject.network}
        for subject in self.subjects:
            if subject is not cell.subject:
                yield self._entry(subject, ScoreCell(subject, images), role="transfer", **tags, **against)

    def _scored(self, subject: Subject, images: ImageSource, **tags: str) -> Entry:
        return self._entry(subject, ScoreCell(subject, images), **tags)

    def _entry(self, subject: Subject, cell: Any, **tags: str) -> Entry:
        names = {"network": subject.network, "seed": str(self.trial.seed), "detector": subject.label}
        return Entry(self.protocol.name, cell, {**names, **tags})
