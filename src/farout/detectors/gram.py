"""The detector that reads Gram matrices of the blocks' feature maps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from farout.core import Activations, PostHoc, Split
from farout.detectors.catalog import register
from farout.detectors.checks import Variant, check_classes, check_variant
from farout.detectors.gaussian import ROWS
from farout.networks.statistics import ORDERS
from farout.rng import numpy_generator

FLOOR = 1e-6
"""The least that a deviation is divided by: of a channel that is dead for a class both bounds are 0."""
LEAST = 10
"""Training images from which on a tenth of them can be held out."""


@register
@dataclass(kw_only=True)
class Gram(PostHoc):
    """How far Gram matrices leave the range that training images of the predicted class span (Sastry and Oore 2020).

    score = Σ_l δ_l / E_l over the blocks l. δ_l is the sum over orders p and channels of
    relu(low − g)/|low| + relu(g − high)/|high|, where g is the p-th root of a row sum of F^p (F^p)ᵀ and low and high
    are its least and largest value on nine tenths of the training split; E_l is the mean of δ_l on the other tenth,
    drawn by `seed`. Bounds nearer to 0 than 1e-6 divide as 1e-6 does (the authors' code adds 1e-6). A class that is
    never predicted in training has the bounds of all classes together. Where no image of the tenth leaves its range,
    E_l is 1. The authors' code also divides by max p, which the paper does not.

    variant="openood" is what OpenOOD v1.5 computes. Bounds are by label, from the whole training split, one pair per
    class, block and order for all channels together; the *sum* of g over the channels is compared with them; blocks
    count alike, and the total is divided by 50. That deviation is then read as confidence, so the score is its
    negative: the sign is inverted, and tables made with it show that. Left out: its choice of five layers, its
    float32 sums, and its failure where a class has no training image (here: the bounds of all classes).

    orders: the powers p, some of 1 to 5.
    """

    name: ClassVar[str] = "gram"
    needs: ClassVar[frozenset[str]] = frozenset({"logits", "grams"})
    fits_on: ClassVar[Split | None] = "train"
    orders: tuple[int, ...] = (1, 2, 3, 4, 5)
    seed: int = 0
    variant: Variant = "paper"

    def __post_init__(self) -> None:
        check_variant(self.variant)
        orders = tuple(self.orders) if isinstance(self.orders, tuple | list) else ()  # JSON knows lists alone
        strange = [order for order in orders if type(order) is not int or not 1 <= order <= ORDERS]
        if strange or not orders or len(set(orders)) < len(orders):
            raise ValueError(
                f"orders must be different numbers out of 1 to {ORDERS}, at least one, got {self.orders!r}"
            )
        self.orders = orders

    def check_fit(self, total: int, labelled: bool) -> None:
        if self.variant == "openood" and not labelled:
            raise ValueError("gram with variant='openood' needs the class of every training image: give labels")
        if self.variant == "paper" and total < LEAST:
            raise ValueError(f"gram needs at least {LEAST} training images, to hold out a tenth of them, got {total}")

    def check_network(self, activations: Activations) -> None:
        if not activations.grams:
            raise ValueError("gram reads the blocks' Gram matrices, and these activations have none: needs={'grams'}")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        self.check_network(activations)
        predicted = torch.cat([part.logits.argmax(1) for part in activations.chunks(ROWS)])
        if self.variant == "paper" or labels is None:
            held = self._held_out(predicted)
            self.state = self._bounds(activations, predicted, held)
            self.state |= self._expected(activations, predicted, held)
        else:
            check_classes(labels, activations, self.name)
            self.state = self._bounds(activations, labels.to(predicted.device), torch.zeros_like(predicted).bool())
            self.state |= {f"expected:{name}": grams.new_tensor(50) for name, grams in activations.grams.items()}
        if not all(value.isfinite().all() for value in self.state.values()):
            self.state = {}
            raise ValueError("gram: the blocks to fit on gave NaN or infinity; are the network's weights sound?")
        return self

    def score(self, activations: Activations) -> Tensor:
        self.check_network(activations)
        predicted = activations.logits.argmax(1)
        total = torch.zeros(len(predicted), dtype=torch.float64, device=predicted.device)
        for name, grams in activations.grams.items():
            total = total + self._deviation(name, grams, predicted) / self.fitted(f"expected:{name}")
        return total if self.variant == "paper" else -total

    def _held_out(self, predicted: Tensor) -> Tensor:
        """Which images the bounds do not see, [N]."""
        total = len(predicted)
        drawn = numpy_generator(self.seed, "gram").choice(total, total // 10, replace=False)
        places = torch.from_numpy(drawn).to(predicted.device)
        return torch.zeros_like(predicted, dtype=torch.bool).index_fill_(0, places, True)

    def _bounds(self, activations: Activations, classes: Tensor, held: Tensor) -> dict[str, Tensor]:
        """Of every block the least and the largest values by class, [classes, orders, channels]."""
        count = activations.logits.shape[1]
        groups = torch.where(held, count, classes)  # those held out are a class of their own, which is then dropped
        lows: dict[str, Tensor] = {}
        highs: dict[str, Tensor] = {}
        for part, members in zip(activations.chunks(ROWS), groups.split(ROWS), strict=True):
            for name, grams in part.grams.items():
                least = largest = self._chosen(grams)
                if self.variant == "openood":
                    least, largest = least.amin(2, keepdim=True), largest.amax(2, keepdim=True)
                lows[name] = _reduce(lows.get(name), "amin", members, least, count + 1)
                highs[name] = _reduce(highs.get(name), "amax", members, largest, count + 1)
        absent = (groups.bincount(minlength=count + 1)[:count] == 0)[:, None, None]
        state = {f"low:{name}": torch.where(absent, low[:count].amin(0), low[:count]) for name, low in lows.items()}
        return state | {
            f"high:{name}": torch.where(absent, high[:count].amax(0), high[:count]) for name, high in highs.items()
        }

    def _expected(self, activations: Activations, predicted: Tensor, held: Tensor) -> dict[str, Tensor]:
        """Of every block the mean deviation of the images held out."""
        totals = {name: grams.new_zeros(()) for name, grams in activations.grams.items()}
        parts = zip(activations.chunks(ROWS), predicted.split(ROWS), held.split(ROWS), strict=True)
        for part, classes, these in parts:
            for name, grams in part.grams.items():
                totals[name] += self._deviation(name, grams[these], classes[these]).sum()
        return {f"expected:{name}": torch.where(t == 0, 1.0, t / held.sum()) for name, t in totals.items()}

    def _deviation(self, name: str, grams: Tensor, predicted: Tensor) -> Tensor:
        """How far one block of every image is out of the bounds of its predicted class, [B]."""
        values = self._chosen(grams)
        if self.variant == "openood":
            values = values.sum(2, keepdim=True)
        low, high = (self.fitted(f"{side}:{name}").index_select(0, predicted) for side in ("low", "high"))
        nearest = values.clamp(low, high)
        return ((values - nearest).abs() / nearest.abs().clamp(min=FLOOR)).sum((1, 2))

    def _chosen(self, grams: Tensor) -> Tensor:
        """The chosen orders of [B, 5, channels]."""
        if self.orders == tuple(range(1, ORDERS + 1)):
            return grams
        return grams[:, [order - 1 for order in self.orders]]


def _reduce(bound: Tensor | None, how: Literal["amin", "amax"], classes: Tensor, rows: Tensor, count: int) -> Tensor:
    """The bounds of every class, widened by these rows."""
    if bound is None:
        bound = rows.new_full((count, *rows.shape[1:]), math.inf if how == "amin" else -math.inf)
    return bound.scatter_reduce_(0, classes[:, None, None].expand_as(rows), rows, how)
