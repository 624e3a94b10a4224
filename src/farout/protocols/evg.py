"""`evg`: the worst case of every detector, searched among plausible variations of the outliers.

"Evaluating Out-of-Distribution Detectors Through Adversarial Generation of Outliers" (Evaluation via Generation). For
every outlier the search looks for the variation that the detector takes for the most normal; AUROC and MinRank are
those of what was found. What differs from the paper:

- the lowest-scoring state visited is the result (main text); appendix D.1 says the last one, whose AUROC is given too;
- scores are standardized on the inliers' validation split; the paper's public code uses the test split, which
  `standardize_on: test` does. Only the standard deviation matters: the mean cancels in every step;
- MinRank is over five runs that are fifths of the chains: at full budget 1,000 chains each, as in the paper, which
  varies the same outliers in every run where ours are different ones; that of unchanged outliers is one figure of all;
- the same search on inliers, which the paper lacks: part of any drop is only the minimum over many queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from farout.protocols.chosen import check_chosen, check_labels, chosen
from farout.protocols.evg_landscape import ENDS, POINTS, plane
from farout.protocols.evg_summary import summarise
from farout.protocols.named import Named, made
from farout.protocols.networks import classified
from farout.protocols.protocol import PROTOCOLS, Protocol
from farout.protocols.summary import Summary
from farout.search import SEARCHES, Search
from farout.study.cell import Entry
from farout.study.found import FoundImages
from farout.study.results import Results
from farout.study.scoring import ScoreCell
from farout.study.searching import SearchCell
from farout.study.sources import FirstImages, ImageSource, RepeatedImages
from farout.study.spec import Budget
from farout.study.study import Study, Trial
from farout.study.subjects import Subject
from farout.variations import VARIATIONS
from farout.variations.variation import Variation


class Effort(NamedTuple):
    """What a budget allows."""

    chains: int
    steps: int
    attack_steps: int
    """Steps of the l_inf attack."""
    inliers: int | None
    """Inlier test images that found outliers are compared with; None = all."""


EFFORT: dict[Budget, Effort] = {
    "quick": Effort(chains=64, steps=50, attack_steps=50, inliers=2_000),
    "standard": Effort(chains=256, steps=300, attack_steps=300, inliers=10_000),
    "full": Effort(chains=5_000, steps=2_000, attack_steps=20_000, inliers=None),
}
HALVINGS = 10
"""The l_inf attack halves its step so often on its way."""


@PROTOCOLS.register("evg")
class Evg(Protocol):
    """The worst case of every detector, searched among plausible variations of the outliers."""

    name: ClassVar[str] = "evg"

    def __init__(
        self,
        variations: Sequence[Named] = ("pixel", "affine", "color"),
        methods: Sequence[Named] = ("mh",),
        *,
        chains: int | None = None,
        steps: int | None = None,
        standardize_on: Literal["val", "test"] = "val",
        control: bool = True,
        transfer: bool = True,
        detectors: Sequence[str] | None = None,
        landscape: Named | None = None,
    ) -> None:
        """variations, methods: by name or with settings; `pixel` is searched by the paper's l_inf attack alone.
        chains, steps: as many, where the budget allows it, the l_inf attack's steps too; its own by default.
        control: search on inliers too. transfer: show every detector what was found against the others.
        detectors: labels of those to be searched against, and to judge what was found; all by default.
        landscape: a variation of two coordinates, such as {name: slice, of: affine, free: [rotation, scale]}; the score
        of the first outlier is drawn over them, with what chains of every method find there (left panel of Fig. 2).
        """
        for what, number in (("chains", chains), ("steps", steps)):
            if number is not None and (type(number) is not int or number < 1):
                raise ValueError(f"{what} must be a positive integer, got {number!r}")
        if standardize_on not in ("val", "test"):
            raise ValueError(f"standardize_on must be val or test, got {standardize_on!r}")
        check_labels("detectors", detectors)
        self.variations = made("variations", VARIATIONS, variations)
        self.methods = made("methods", SEARCHES, methods)
        self.chains, self.steps, self.standardize_on = chains, steps, standardize_on
        self.control, self.transfer, self.detectors = control, transfer, detectors
        self.landscape = None if landscape is None else plane(landscape)

    def unsuited(self, study: Study) -> str | None:
        if reason := super().unsuited(study):
            return reason
        for trial in study.trials:
            for variation in (*self.variations.values(), *([self.landscape] if self.landscape else [])):
                try:
                    self._suited(variation, trial)
                except (TypeError, ValueError) as error:
                    return str(error)
        return None

    def plan(self, study: Study) -> list[Entry]:
        effort = self._effort(study.budget)
        check_chosen(self.detectors, study)
        return [entry for trial in study.trials for entry in _Plan(self, trial, effort).entries()]

    def cuts(self, study: Study) -> list[str]:
        effort, told = self._effort(study.budget), []
        for what in ("chains", "steps"):
            asked, allowed = getattr(self, what), getattr(effort, what)
            if asked and asked > allowed:
                told.append(f"{asked - allowed:,} of {asked:,} {what} of {self.name}")
        return told

    def _effort(self, budget: Budget) -> Effort:
        """What the study asks for, as far as the budget allows; the full one allows everything."""
        allowed = EFFORT[budget]

        def within(asked: int | None, most: int) -> int:
            return most if asked is None else asked if budget == "full" else min(asked, most)

        return Effort(
            within(self.chains, allowed.chains), within(self.steps, allowed.steps),
            within(self.steps, allowed.attack_steps), allowed.inliers,
        )  # fmt: skip

    @classmethod
    def summarise(cls, results: Results) -> Summary:
        return summarise(results, cls.name)

    def _suited(self, variation: Variation, trial: Trial) -> Variation:
        """The variation for this trial's images, tried on one of each set."""
        suited = variation.suited(trial.inliers.test.about.shape)
        for images in (trial.inliers.test, *trial.outliers.values()) if suited.conditional else ():
            if not images.about.total:
                raise ValueError(f"a search varies images, and {images.about.name} has none")
            suited.base(trial.stressed(images, None).load(), [0])
        return suited


class _Plan:
    """The cells of one trial."""

    def __init__(self, protocol: Evg, trial: Trial, effort: Effort) -> None:
        self.protocol, self.trial, self.effort = protocol, trial, effort
        self.inliers = trial.stressed(trial.inliers.test, effort.inliers)
        self.subjects = chosen(trial, protocol.detectors)
        val = trial.inliers.val if protocol.standardize_on == "val" else None
        self.reference, self.split = (val, "val") if val else (self.inliers, "test")

    def entries(self) -> Iterator[Entry]:
        """Scores of what there is already, then the searches, then what other detectors say of their finds."""
        outliers = {name: self._bases(images) for name, images in self.trial.outliers.items()}
        for subject in self.subjects:
            yield self._scored(subject, self.inliers, role="inliers")
            yield from (
                self._scored(subject, images, role="outliers", outliers=name) for name, images in outliers.items()
            )
        yield from classified(self.protocol.name, self.trial.seed, self.subjects, self.inliers)
        searches = [search for name, images in outliers.items() for search in self._searches(name, images)]
        yield from searches
        if self.protocol.control:
            yield from self._searches("", self._bases(self.trial.inliers.test))
        if self.protocol.landscape is not None:
            yield from self._landscape(self.protocol.landscape)
        if self.protocol.transfer:
            yield from (entry for search in searches for entry in self._transferred(search))

    def _bases(self, images: ImageSource) -> ImageSource:
        return FirstImages(self.trial.stressed(images, None), self.effort.chains)

    def _searches(self, name: str, images: ImageSource) -> Iterator[Entry]:
        """The searches that vary these images: outliers of this name, or inliers."""
        for label, given in self.protocol.variations.items():
            variation = given.suited(self.inliers.about.shape)
            if not variation.conditional and not name:
                continue
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

    def _methods(self, variation: Variation) -> Iterator[tuple[str, Search, int]]:
        if variation.name == "pixel":
            steps, radius = self.effort.attack_steps, variation.params["radius"]
            attack = SEARCHES.create("zeroth_order", halve_every=max(1, steps // HALVINGS), radius=radius)
            yield attack.name, attack, steps
        else:
            yield from ((label, search, self.effort.steps) for label, search in self.protocol.methods.items())

    def _landscape(self, variation: Variation) -> Iterator[Entry]:
        """The first outlier's scores over two coordinates, and chains of every method that start from it."""
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
        """What was found against one detector, scored by all others of the trial."""
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
        who = {"network": subject.network, "seed": str(self.trial.seed), "detector": subject.label}
        return Entry(self.protocol.name, cell, {**who, **tags})
