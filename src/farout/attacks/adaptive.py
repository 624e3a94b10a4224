"""`adaptive_pgd`: attack on a classifier and a detector at once: misclassified, and scored as an inlier."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from farout.attacks.catalog import ATTACKS
from farout.attacks.estimates import DifferentiableTarget
from farout.attacks.gradients import check_labels, misclassified, odds
from farout.attacks.score_descent import Descent, Evaluation, normalize_size
from farout.attacks.target import Target
from farout.networks.passes import with_gradients

CLASSIFIER_WEIGHT = 1e-9
"""Weight of the classifier's loss once the image is misclassified: it matters only where the score has no gradient."""


@ATTACKS.register("adaptive_pgd")
@dataclasses.dataclass(kw_only=True)
class AdaptivePGD(Descent):
    """Projected gradient descent on classifier and detector in turn ("selective" in Bryniarski et al. 2021).

    While the image is classified correctly, a step lowers the log odds of its label; once it is misclassified, a step
    lowers the detector's score. The two losses need no weight. The result is the misclassified iterate with the lowest
    score, or the last iterate if none was misclassified. Where a score has a zero gradient, as gram's has within its
    ranges, steps keep raising the classifier's confidence in its error, which may lead out of the flat region. Step
    sizes follow half a cosine, from a quarter of epsilon to 0.

    The paper's orthogonal variant, which never steps against the other loss, reached higher (worse) scores on mds, knn.
    """

    name = "adaptive_pgd"
    against = "both"

    def run(self, target: Target, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = check_labels(target, images, labels, rngs)
        with with_gradients():
            differentiable = DifferentiableTarget.of(target, images, rngs, self.queries, self.reach)

            def evaluate(current: Tensor) -> Evaluation:
                logits, scores = differentiable.logits_and_scores(current)
                wrong, classifier = misclassified(logits, labels), -odds(logits, labels).double()
                value = torch.where(wrong, normalize_size(scores) + CLASSIFIER_WEIGHT * classifier, classifier)
                return Evaluation(value, scores.detach(), wrong)

            return self.descend(differentiable, images, rngs, evaluate)
