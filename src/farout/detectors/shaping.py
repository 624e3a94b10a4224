"""Detectors that shape the features f or the last layer, and take the energy of the logits that then come out."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from farout.core import Activations, Head, PostHoc, Split
from farout.detectors.catalog import register
from farout.detectors.checks import Variant, check_choice, check_finite, check_percent, check_variant


class Shaping(PostHoc):
    """score = −logsumexp(W·shaped(f) + b)."""

    needs: ClassVar[frozenset[str]] = frozenset({"features", "head"})

    @abstractmethod
    def shaped(self, features: Tensor) -> Tensor:
        """Features [B, D] in float64, shaped."""

    def score(self, activations: Activations) -> Tensor:
        head = activations.last_layer(self.name)
        return -head.logits(self.shaped(activations.features.double())).logsumexp(1)


@register
@dataclass(kw_only=True)
class ReAct(Shaping):
    """Rectified activations (Sun et al. 2021, eq. 2): every entry of f is cut off at c.

    c is the `percentile` of all entries of f on the inlier validation split. OpenOOD does the same.
    """

    name: ClassVar[str] = "react"
    fits_on: ClassVar[Split | None] = "val"
    percentile: float = 90.0
    """Percentile of the training features that entries are cut off at."""

    def __post_init__(self) -> None:
        check_percent("percentile", self.percentile)

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        check_finite(activations, self.name)
        self.state = {"limit": _percentile(activations.features, self.percentile)}
        return self

    def shaped(self, features: Tensor) -> Tensor:
        return features.minimum(self.fitted("limit"))


def _percentile(values: Tensor, percentile: float) -> Tensor:
    """As numpy's, which counts places in float32 for float32 values and so errs beyond 2²⁴ of them."""
    known = values.dtype in (torch.float32, torch.float64)
    flat = (values if known else values.float()).detach().cpu().flatten().numpy()  # numpy has no bfloat16
    place = (len(flat) - 1) * percentile / 100
    low, high = int(np.floor(place)), int(np.ceil(place))
    ordered = np.partition(flat, [low, high])
    below, above = float(ordered[low]), float(ordered[high])
    return values.new_tensor(below + (place - low) * (above - below), dtype=torch.float64)


Kind = Literal["P", "S", "B"]


@register
@dataclass(kw_only=True)
class ASH(Shaping):
    """Activation shaping (Djurisic et al. 2023): only the largest entries of f are kept, k of n.

    k = n − round(n · percentile / 100); of equal entries the earlier ones are kept. Of the kept, kind "P" keeps the
    values, "S" (the default) multiplies them by exp(Σf before / Σf after), "B" sets each to Σf / k.
    OpenOOD uses kind B on the pooled features, and variant="openood" makes that the default; a given kind is the same
    in both.
    """

    name: ClassVar[str] = "ash"
    kind: Kind | None = None
    """What becomes of the kept entries: "P", "B" or "S"."""
    percentile: float = 90.0
    """Percent of the entries that are pruned."""
    variant: Variant = "paper"

    def __post_init__(self) -> None:
        check_variant(self.variant)
        check_percent("percentile", self.percentile)
        if self.kind is not None:
            check_choice("kind", self.kind, ("P", "S", "B"))

    def check_network(self, activations: Activations) -> None:
        self.shaped(activations.features.double())

    def shaped(self, features: Tensor) -> Tensor:
        kept = _largest(features, _count(features, self.percentile, self.name))
        match self.kind or ("S" if self.variant == "paper" else "B"):
            case "P":
                return features * kept
            case "S":
                return features * kept * _sharpening(features, (features * kept).sum(1, keepdim=True))
            case _:
                return kept * (features.sum(1, keepdim=True) / kept.sum(1, keepdim=True))


@register
@dataclass(kw_only=True)
class Scale(Shaping):
    """SCALE (Xu et al. 2024, eq. 5 and 6): f is multiplied by exp(Σf / Σ of its k largest entries), nothing is pruned.

    k = n − round(n · percentile / 100). The factor means something for f ≥ 0 only, as a ReLU leaves it: other features
    are an error when scored. OpenOOD does the same.
    """

    name: ClassVar[str] = "scale"
    percentile: float = 85.0
    """Percent of the entries that are not among the k largest."""

    def __post_init__(self) -> None:
        check_percent("percentile", self.percentile)

    def check_network(self, activations: Activations) -> None:
        self.shaped(activations.features.double())

    def shaped(self, features: Tensor) -> Tensor:
        if (features < 0).any():
            raise ValueError(
                f"scale takes features that are not negative, as a ReLU leaves them; got values down to "
                f"{features.min():.4g}: it cannot be used on this network"
            )
        largest = features.topk(_count(features, self.percentile, self.name), dim=1).values
        return features * _sharpening(features, largest.sum(1, keepdim=True))


@register
@dataclass(kw_only=True)
class DICE(PostHoc):
    """Directed sparsification (Sun and Li 2022): score = −logsumexp((W∘M)·f + b).

    M is 1 where a weight contributes more than the `percentile` of all contributions, E[f]∘W with the mean over the
    training split, and 0 elsewhere. OpenOOD does the same.
    """

    name: ClassVar[str] = "dice"
    needs: ClassVar[frozenset[str]] = frozenset({"features", "head"})
    fits_on: ClassVar[Split | None] = "train"
    percentile: float = 90.0
    """Percent of the contributions to the logits that are left out."""

    def __post_init__(self) -> None:
        check_percent("percentile", self.percentile)

    def check_network(self, activations: Activations) -> None:
        activations.last_layer(self.name).logits(activations.features)

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        check_finite(activations, self.name)
        self.check_network(activations[:1])
        weight, bias = activations.last_layer(self.name)
        mean = torch.stack([part.features.double().sum(0) for part in activations.chunks()]).sum(0) / len(activations)
        contributions = mean * weight.detach().double()
        kept = contributions > _percentile(contributions, self.percentile)
        if not kept.any():
            raise ValueError(
                f"dice: percentile={self.percentile:g} keeps none of {kept.numel()} weights, as the greatest "
                "contributions are equal; lower it, or see whether the training features are all zero"
            )
        self.state = {"weight": weight.detach().double() * kept, "bias": bias.detach().double()}
        return self

    def score(self, activations: Activations) -> Tensor:
        return -Head(self.fitted("weight"), self.fitted("bias")).logits(activations.features).logsumexp(1)


def _count(features: Tensor, percentile: float, who: str) -> int:
    """How many entries of a row lie above the percentile."""
    total = int(features.shape[1])
    count = total - round(total * percentile / 100)
    if count < 1:
        raise ValueError(f"{who}: percentile={percentile:g} keeps none of {total} features; lower it")
    return count


def _largest(features: Tensor, count: int) -> Tensor:
    """1 at the largest entries of every row and 0 elsewhere; of equal ones the earlier."""
    least = features.topk(count, dim=1).values[:, -1:]
    above, equal = features > least, features == least
    missing = count - above.sum(1, keepdim=True)
    return (above | (equal & (equal.long().cumsum(1) <= missing))).to(features.dtype)


def _sharpening(features: Tensor, rest: Tensor) -> Tensor:
    """exp(Σf / Σ kept f), [B, 1]; 1 where nothing is left to sharpen."""
    ratio = features.sum(1, keepdim=True) / torch.where(rest == 0, 1.0, rest)
    return torch.where(rest == 0, 0.0, ratio).exp()
