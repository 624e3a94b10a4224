"""`temp_scaling`: softmax with a temperature calibrated on the inlier validation split."""

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
from farout.detectors.math.softmax import tail


@register
@dataclass(kw_only=True)
class TempScaling(PostHoc):
    """Maximum softmax probability at the temperature T that calibrates (Guo et al. 2017, eq. 9).

    score = 1 − max softmax(l / T). T minimizes the cross-entropy of softmax(l / T) on the labeled inlier validation
    split: the root of its slope, in float64. There is no root if every image is classified correctly (T → 0), or if the
    logits are no better than chance (T → ∞), so T is at least 1/100 of the median lead of the largest logit over the
    next, and at most 1,000 times the mean of max l − min l. T is 1 if no image has a unique largest logit.

    OpenOOD takes 50 L-BFGS steps of rate 0.01 on T itself, from T = 1.5, and stops before the minimum:
    variant="openood".
    """

    name = "temp_scaling"
    fits_on: ClassVar[Split | None] = "val"
    variant: Variant = "paper"

    def __post_init__(self) -> None:
        check_variant(self.variant)

    def check_fit(self, total: int, labeled: bool) -> None:
        if not labeled:
            raise ValueError(f"{self.name} needs the class of every validation image: give a split with labels")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        check_logits(activations, self.name)
        assert labels is not None
        check_classes(labels, activations, self.name)
        fit_temperature = optimal_temperature if self.variant == "paper" else _openood_temperature
        self.state = {
            "temperature": activations.logits.new_tensor(fit_temperature(activations, labels), dtype=torch.float64)
        }
        return self

    def score(self, activations: Activations) -> Tensor:
        rest, _ = tail(activations.logits.double() / self.fitted("temperature"))
        return rest / (1 + rest)


SHARPEST, FLATTEST = 1e-2, 1e3
"""Smallest T in units of the logits' median lead, largest T in units of their mean range."""


def optimal_temperature(activations: Activations, labels: Tensor) -> float:
    """Return the T of least cross-entropy, within the bounds.

    The cross-entropy is convex in 1 / T, so its slope changes sign once; its sign at a bound shows whether the minimum
    lies beyond.
    """
    from scipy.optimize import brentq

    leads = torch.cat([_leads(part.logits) for part in activations.chunks()])
    if not len(leads):
        return 1.0
    spread = math.fsum(_spreads(part.logits).sum().item() for part in activations.chunks()) / len(activations)
    low, high = SHARPEST * leads.median().item(), FLATTEST * spread

    def slope(log: float) -> float:
        temperature = math.exp(log)
        return cross_entropy(activations, labels, temperature)[1] * temperature**2

    if slope(math.log(low)) >= 0:
        return low
    if slope(math.log(high)) <= 0:
        return high
    root: float = brentq(slope, math.log(low), math.log(high), xtol=1e-14)
    return math.exp(root)


def _openood_temperature(activations: Activations, labels: Tensor) -> float:
    """Return T after OpenOOD's optimization steps."""
    temperature = torch.tensor(1.5, dtype=torch.float64, device="cpu")
    optimizer = torch.optim.LBFGS([temperature], lr=0.01, max_iter=50)

    def loss() -> float:
        value, slope = cross_entropy(activations, labels, temperature.item())
        temperature.grad = temperature.new_tensor(slope)
        return value

    optimizer.step(loss)
    fitted = temperature.item()
    if not 0 < fitted < math.inf:
        raise ValueError(
            f'temp_scaling: OpenOOD\'s steps lead to T = {fitted:.4g} on these logits; use variant="paper"'
        )
    return fitted


def cross_entropy(activations: Activations, labels: Tensor, temperature: float) -> tuple[float, float]:
    """Return the mean cross-entropy of softmax(l / T) with the labels, and its derivative in T, (l_y − E_p[l]) / T²."""
    values, slopes = [], []
    for part, classes in zip(activations.chunks(), labels.split(1024), strict=True):
        logits = part.logits.double() - part.logits.double().amax(1, keepdim=True)
        own = logits.gather(1, classes[:, None]).squeeze(1)
        shares = (logits / temperature).softmax(1)
        mean = (shares * logits).where(shares > 0, 0.0).sum(1)  # a logit of −∞ adds nothing
        values.append(F.cross_entropy(logits / temperature, classes, reduction="sum").item())
        slopes.append((own - mean).sum().item())
    return math.fsum(values) / len(labels), math.fsum(slopes) / len(labels) / temperature**2


def _leads(logits: Tensor) -> Tensor:
    """Return the largest logit minus the next, of the rows where that is positive and finite."""
    if logits.shape[1] < 2:
        return logits.new_empty(0)
    first, second = logits.double().topk(2, dim=1).values.unbind(1)
    leads = first - second
    return leads[(leads > 0) & leads.isfinite()]


def _spreads(logits: Tensor) -> Tensor:
    """Return max l − min l of every row, without classes of logit −∞."""
    logits = logits.double()
    low: Tensor = logits.where(logits > -torch.inf, torch.inf).amin(1)
    return logits.amax(1) - low
