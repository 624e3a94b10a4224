"""`evg`: the worst case of every detector, searched among plausible variations of the outliers.

"Evaluating Out-of-Distribution Detectors Through Adversarial Generation of Outliers" (Evaluation via Generation). For
every outlier the search looks for the variation with the lowest score (the worst case); AUROC and MinRank are those of
the worst cases. Differences from the paper:

- the lowest-scoring state visited is the result (main text); appendix D.1 says the last one, whose AUROC is also given;
- scores are standardized on the inliers' validation split; the paper's public code uses the test split, which
  `standardize_on: test` does. Only the standard deviation matters: the mean cancels in every step;
- a generator whose latent is searched is trained on the test outliers, as in the paper; worst cases that are noise
  rather than images (appendix B.5) are kept, as there, and flagged;
- MinRank is over five runs that are fifths of the chains: at full budget 1,000 chains each, as in the paper, which
  varies the same outliers in every run where ours are different ones; that of unchanged outliers is over all of them;
- the same search is also run on inliers (control): part of any drop is only the minimum over many queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.evg.entries import EFFORT, Effort, TrialPlan
from farout.protocols.evg.landscape import plane
from farout.protocols.evg.latents import latent_cuts
from farout.protocols.evg.tables import summarize
from farout.protocols.shared.budgets import check_counts, check_flags, cut
from farout.protocols.shared.named import create_components
from farout.protocols.shared.selection import check_labels, check_selected
from farout.registry import Named
from farout.report.content import Summary
from farout.search import SEARCHES
from farout.study.cells.cell import Entry
from farout.study.results import Results
from farout.study.spec import Budget
from farout.study.study import Study, Trial
from farout.variations import VARIATIONS
from farout.variations.variation import Variation


@PROTOCOLS.register("evg")
class Evg(Protocol):
    """Worst case of every detector, searched among plausible variations of the outliers."""

    name = "evg"

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
        chains, steps: at most as many as the budget allows, which are the default; `steps` is also of the l_inf attack.
        standardize_on: split of the inliers whose scores standardize the search; the paper's public code uses test.
        control: also search on inliers. transfer: score every detector's worst cases by all other detectors.
        detectors: labels of the detectors to search against; they also score each other's worst cases. Default: all.
        landscape: a variation of two coordinates, such as {name: slice, of: affine, free: [rotation, scale]}; the score
        of the first outlier is drawn over them, with the ends of the chains of every method (left panel of Fig. 2).
        """
        check_counts(chains=chains, steps=steps)
        check_flags(control=control, transfer=transfer)
        if standardize_on not in ("val", "test"):
            raise ValueError(f"standardize_on must be val or test, got {standardize_on!r}")
        check_labels("detectors", detectors)
        self.variations = create_components("variations", VARIATIONS, variations)
        self.methods = create_components("methods", SEARCHES, methods)
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
        check_selected(self.detectors, study)
        return [entry for trial in study.trials for entry in TrialPlan(self, trial, effort, study.budget).entries()]

    def cuts(self, study: Study) -> list[str]:
        effort = self._effort(study.budget)
        chains = cut(self.chains, effort.chains, f"chains of {self.name}")
        lines = [*chains, *cut(self.steps, effort.steps, f"steps of {self.name}")]
        return lines + [line for label, one in self.variations.items() for line in latent_cuts(label, one, study)]

    def _effort(self, budget: Budget) -> Effort:
        """Return the size of the searches: what the study asks for, limited by every budget but the full one."""
        allowed = EFFORT[budget]

        def within(asked: int | None, most: int) -> int:
            return most if asked is None else asked if budget == "full" else min(asked, most)

        return Effort(
            within(self.chains, allowed.chains), within(self.steps, allowed.steps),
            within(self.steps, allowed.attack_steps), allowed.inliers,
        )  # fmt: skip

    @classmethod
    def summarize(cls, results: Results) -> Summary:
        return summarize(results, cls.name)

    def _suited(self, variation: Variation, trial: Trial) -> Variation:
        """Return the variation for this trial's images; raise if it cannot be applied to one image of each set."""
        suited = variation.suited(trial.inliers.test.about.shape)
        for images in (trial.inliers.test, *trial.outliers.values()) if suited.conditional else ():
            if not images.about.total:
                raise ValueError(f"a search needs images to vary, and {images.about.name} has none")
            suited.base(trial.stressed(images, None).preview(), [0])
        return suited
