"""Temperature scaling: the softmax made as sure as the network is right on the inlier validation split."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.core import Activations, PostHoc, Split
from farout.detectors.catalog import register
from farout.detectors.checks import Variant, check_classes, check_logits, check_variant
from farout.detectors.logits import tail


@register
@dataclass(kw_only=True)
class TempScaling(PostHoc):
    """Maximum softmax probability at the temperature T that calibrates (Guo et al. 2017, eq. 9).

    score = 1 − max softmax(l / T). T minimizes the cross-entropy of softmax(l / T) on the labelled inlier validation
    split, by L-BFGS on log T in float64. There is no minimum where every image is classified correctly (T → 0), or
    the logits are no better than chance (T → ∞): T stays between 1/100 of the logits' spread, which is the mean of
    max l − min l, and 1,000 times that. Logits that are all equal leave T at 1.

    OpenOOD makes 50 L-BFGS steps of rate 0.01 on T itself, from T = 1.5, and stops short of the minimum:
    variant="openood".
    """

    name: ClassVar[str] = "temp_scaling"
    fits_on: ClassVar[Split | None] = "val"
    variant: Variant = "paper"

    def __post_init__(self) -> None:
        check_variant(self.variant)

    def check_fit(self, total: int, labelled: bool) -> None:
        if not labelled:
            raise ValueError(f"{self.name} needs the class of every validation image: give a split with labels")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        check_logits(activations, self.name)
        assert labels is not None
        check_classes(labels, activations, self.name)
        find = calibrated if self.variant == "paper" else _few_steps
        self.state = {"temperature": torch.tensor(find(activations, labels), dtype=torch.float64)}
        return self

    def score(self, activations: Activations) -> Tensor:
        rest, _ = tail(activations.logits.double() / self.fitted("temperature"))
        return rest / (1 + rest)


SHARPEST, FLATTEST = 1e-2, 1e3
"""The least and the greatest T, in units of the logits' spread."""


def calibrated(activations: Activations, labels: Tensor) -> float:
    """The T of least cross-entropy, within the bounds.

    The cross-entropy is convex in 1 / T, so its slope changes sign once: it tells at the bounds whether the minimum
    lies beyond.
    """
    spread = math.fsum(_spreads(part.logits).sum().item() for part in activations.chunks()) / len(activations)
    if spread == 0:
        return 1.0
    low, high = SHARPEST * spread, FLATTEST * spread
    if cross_entropy(activations, labels, low)[1] >= 0:
        return low
    if cross_entropy(activations, labels, high)[1] <= 0:
        return high
    log = torch.tensor(math.log(spread / 10), dtype=torch.float64)
    optimizer = torch.optim.LBFGS(
        [log], max_iter=100, tolerance_grad=1e-12, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def loss() -> float:
        temperature = math.exp(log.clamp(math.log(low), math.log(high)).item())
        value, slope = cross_entropy(activations, labels, temperature)
        log.grad = torch.tensor(slope * temperature, dtype=torch.float64)
        return value

    optimizer.step(loss)
    return min(max(math.exp(log.item()), low), high)


def _few_steps(activations: Activations, labels: Tensor) -> float:
    """T after OpenOOD's steps."""
    temperature = torch.tensor(1.5, dtype=torch.float64)
    optimizer = torch.optim.LBFGS([temperature], lr=0.01, max_iter=50)

    def loss() -> float:
        value, slope = cross_entropy(activations, labels, temperature.item())
        temperature.grad = torch.tensor(slope, dtype=torch.float64)
        return value

    optimizer.step(loss)
    found = temperature.item()
    if not 0 < found < math.inf:
        raise ValueError(f'temp_scaling: OpenOOD\'s steps lead to T = {found:.4g} on these logits; use variant="paper"')
    return found


def cross_entropy(activations: Activations, labels: Tensor, temperature: float) -> tuple[float, float]:
    """Mean cross-entropy of softmax(l / T) with the labels, and its derivative by T, (l_y − E_p[l]) / T²."""
    values, slopes = [], []
    for part, classes in zip(activations.chunks(), labels.split(1024), strict=True):
        logits = part.logits.double() - part.logits.double().amax(1, keepdim=True)
        own = logits.gather(1, classes[:, None]).squeeze(1)
        shares = (logits / temperature).softmax(1)
        mean = (shares * logits).where(shares > 0, 0.0).sum(1)  # a logit of −∞ has no part in it
        values.append(F.cross_entropy(logits / temperature, classes, reduction="sum").item())
        slopes.append((own - mean).sum().item())
    return math.fsum(values) / len(labels), math.fsum(slopes) / len(labels) / temperature**2


def _spreads(logits: Tensor) -> Tensor:
    """max l − min l of every row, classes of logit −∞ left out."""
    logits = logits.double()
    low: Tensor = logits.where(logits > -torch.inf, torch.inf).amin(1)
    return logits.amax(1) - low
