"""`adaptive_pgd`: images that the classifier gets wrong and the detector takes for normal."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from farout.attacks.catalog import ATTACKS
from farout.attacks.estimates import Sight
from farout.attacks.gradients import checked, fooled, odds
from farout.attacks.score_descent import Descent, Seen, leveled
from farout.attacks.victim import Victim
from farout.networks.passes import with_gradients

ASIDE = 1e-9
"""Weight of the classifier's term once it errs: it decides where the score has no gradient, and only there."""


@ATTACKS.register("adaptive_pgd")
@dataclasses.dataclass(kw_only=True)
class AdaptivePGD(Descent):
    """Projected gradient descent on classifier and detector in turn ("selective" in Bryniarski et al. 2021).

    While the image is classified right a step lowers the odds of its label; once it is not, the detector's score. No
    weight between the two has to be chosen. Of the states that are classified wrong the one with the lowest score is
    kept; where there are none, the last. Where a score has no gradient at all, as gram's
    within its ranges, steps go on making the classifier surer of its error, in case that leads on. Steps shrink along
    half a cosine from a quarter of epsilon.

    The paper's orthogonal variant, which never steps against the other term, kept higher scores on mds and knn.
    """

    name = "adaptive_pgd"
    against = "both"

    def run(self, victim: Victim, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = checked(victim, images, labels, rngs)
        with with_gradients():
            sight = Sight.of(victim, images, rngs, self.queries, self.reach)

            def see(now: Tensor) -> Seen:
                logits, scores = sight.both(now)
                wrong, classifier = fooled(logits, labels), -odds(logits, labels).double()
                value = torch.where(wrong, leveled(scores) + ASIDE * classifier, classifier)
                return Seen(value, scores.detach(), wrong)

            return self.descend(sight, images, rngs, see)
