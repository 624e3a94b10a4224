"""`gram`: deviations of the Gram matrices of the blocks' feature maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from farout.checks import check_choice
from farout.core import ROWS, Activations, PostHoc, Reduction, Split, Summary
from farout.detectors.catalog import register
from farout.detectors.checks import check_classes
from farout.detectors.math.class_bounds import CLASSES, bound, extremes, joined
from farout.networks.statistics import ORDERS
from farout.rng import numpy_generator

FLOOR = 1e-6
"""Smallest divisor of a deviation: both bounds are 0 for a channel that is dead for a class."""
LEAST = 10
"""Smallest number of training images of which a tenth can be held out."""
GRAMS = "grams:"
"""Prefix of the blocks' names in a summary."""
DIVISOR = 50
"""Divisor of OpenOOD v1.5, instead of an expected deviation."""
Variant = Literal["paper", "openood", "openood-1.5"]
"""Variant: the paper's definition, or the computation of OpenOOD's main of 2025-12-01 or of its tag v1.5."""


@register
@dataclass(kw_only=True)
class Gram(PostHoc):
    """Deviation of Gram matrices from the range of training images of the predicted class (Sastry and Oore 2020).

    score = Σ_l δ_l / E_l over the blocks l. δ_l is the sum over orders p and channels of relu(low − g)/|low| +
    relu(g − high)/|high|, where g is the p-th root of a row sum of F^p (F^p)ᵀ and low and high are its smallest and
    largest value on nine tenths of the training split; E_l is the mean of δ_l on the other tenth, drawn by `seed`.
    Bounds closer to 0 than 1e-6 are replaced by 1e-6 as divisors (the authors' code adds 1e-6). A class that is
    never predicted in training has the bounds of all classes together. E_l is 1 if no image of the tenth leaves its
    range. The authors' code also divides by max p, which the paper does not.

    variant="openood" is OpenOOD's computation since 2025-12-01: bounds and E_l by label instead of prediction, from
    nine tenths and one tenth of each class (⌊n/10⌋ images, drawn by `seed`; there without a seed); divisors are
    |bound + 1e-6|, and the sum is divided by max p, as in the authors' code.

    variant="openood-1.5" is the tag v1.5, used for published tables. Bounds are by label, from the whole training
    split, one pair per class, block and order for all channels together, and the *sum* of g over the channels is
    compared with them; blocks have equal weight, and the total is divided by 50. OpenOOD reads that deviation as
    confidence, so the score is its negative: the sign is inverted, as tables made with it show.

    Not reproduced: the layers of both (main: every convolution and ReLU module; v1.5: five), float32 sums, and failures
    if a class has no training image (here: the bounds of all classes) or no image leaves its range.

    orders: the powers p, a subset of 1 to 5.
    """

    name = "gram"
    version: ClassVar[int] = 2
    needs: ClassVar[frozenset[str]] = frozenset({"logits", "grams"})
    fits_on: ClassVar[Split | None] = "train"
    orders: tuple[int, ...] = (1, 2, 3, 4, 5)
    seed: int = 0
    variant: Variant = "paper"

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, get_args(Variant))
        orders = tuple(self.orders) if isinstance(self.orders, tuple | list) else ()  # JSON has lists only
        strange = [order for order in orders if type(order) is not int or not 1 <= order <= ORDERS]
        if strange or not orders or len(set(orders)) < len(orders):
            raise ValueError(
                f"orders must be different numbers out of 1 to {ORDERS}, at least one, got {self.orders!r}"
            )
        self.orders = orders

    def check_fit(self, total: int, labeled: bool) -> None:
        if self.variant != "paper" and not labeled:
            raise ValueError(f"gram with variant={self.variant!r} needs the class of every training image: give labels")
        if self.variant != "openood-1.5" and total < LEAST:
            raise ValueError(f"gram needs at least {LEAST} training images, to hold out a tenth of them, got {total}")

    def check_network(self, activations: Activations) -> None:
        if not activations.grams:
            raise ValueError("gram reads the blocks' Gram matrices, and these activations have none: needs={'grams'}")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        self.check_network(activations)
        return self.fit_reduced(activations, labels)

    def reduction(self, total: int, labels: Tensor | None) -> Reduction:
        return GramReduction(self, total, None if self.variant == "paper" else labels)

    def score(self, activations: Activations) -> Tensor:
        self.check_network(activations)
        predicted = activations.logits.argmax(1)
        total = torch.zeros(len(predicted), dtype=torch.float64, device=predicted.device)
        for name, grams in activations.grams.items():
            total = total + self.deviation(name, grams, predicted) / self.fitted(f"expected:{name}")
        if self.variant == "openood":
            return total / activations.logits.double().softmax(1).amax(1)
        return total if self.variant == "paper" else -total

    def deviation(self, name: str, grams: Tensor, classes: Tensor) -> Tensor:
        """Return the deviation of one block from the bounds of these classes, [B]."""
        values = self.select_orders(grams)
        if self.variant == "openood-1.5":
            values = values.sum(2, keepdim=True)
        low, high = (self.fitted(f"{side}:{name}").index_select(0, classes) for side in ("low", "high"))
        nearest = values.clamp(low, high)
        sizes = nearest.abs().clamp(min=FLOOR) if self.variant == "paper" else (nearest + FLOOR).abs()
        return ((values - nearest).abs() / sizes).sum((1, 2))

    def select_orders(self, grams: Tensor) -> Tensor:
        """Return the selected orders of [B, 5, channels]."""
        if self.orders == tuple(range(1, ORDERS + 1)):
            return grams
        return grams[:, [order - 1 for order in self.orders]]


class GramReduction(Reduction):
    """Fit of gram from the held-out rows and the bounds of all others.

    A summary is the extreme points of each class: never more than were summarized, nor two for each class.
    """

    def __init__(self, gram: Gram, total: int, labels: Tensor | None) -> None:
        """labels: class of every row; None = the predicted one."""
        self._gram, self._labels = gram, labels
        self._held = _held_out(gram, total, labels)
        self.rows = np.flatnonzero(self._held.numpy())

    def summarize(self, start: int, part: Activations) -> Summary:
        rows = slice(start, start + len(part))
        classes, bounding = self._classes(part, rows), ~self._held[rows].to(part.logits.device)
        grams = {GRAMS + name: self._gram.select_orders(values)[bounding] for name, values in part.grams.items()}
        return extremes({CLASSES: classes[bounding], **grams})

    def merge(self, first: Summary, second: Summary) -> Summary:
        return joined(first, second)

    def fit(self, rows: Activations, summary: Summary) -> None:
        gram = self._gram
        gram.state = self._bounds(summary, rows.logits.shape[1])
        gram.state |= self._expected(rows)
        if not all(value.isfinite().all() for value in gram.state.values()):
            gram.state = {}
            raise ValueError("gram: the blocks to fit on gave NaN or infinity; check the network's weights for NaN")

    def _classes(self, part: Activations, rows: slice | Tensor) -> Tensor:
        if self._labels is None or not len(part):
            return part.logits.argmax(1)
        classes = self._labels[rows].to(part.logits.device)
        check_classes(classes, part, self._gram.name)
        return classes

    def _bounds(self, summary: Summary, count: int) -> dict[str, Tensor]:
        """Return the smallest and largest values of every block by class, [classes, orders, channels]."""
        classes = summary[CLASSES]
        absent = (classes.bincount(minlength=count) == 0)[:, None, None]
        state: dict[str, Tensor] = {}
        for name in [name for name in summary if name != CLASSES]:
            least = largest = summary[name]
            if self._gram.variant == "openood-1.5":
                least, largest = least.amin(2, keepdim=True), largest.amax(2, keepdim=True)
            low, high = bound("amin", classes, least, count), bound("amax", classes, largest, count)
            block = name.removeprefix(GRAMS)
            state[f"low:{block}"] = torch.where(absent, low.amin(0), low)
            state[f"high:{block}"] = torch.where(absent, high.amax(0), high)
        return state

    def _expected(self, rows: Activations) -> dict[str, Tensor]:
        """Return for every block the mean deviation of the held-out rows."""
        if self._gram.variant == "openood-1.5":
            return {f"expected:{name}": grams.new_tensor(DIVISOR) for name, grams in rows.grams.items()}
        totals = {name: grams.new_zeros(()) for name, grams in rows.grams.items()}
        first, places = 0, torch.from_numpy(self.rows)
        for count in np.bincount(self.rows // ROWS):  # added up in the parts of a whole table
            part = slice(first, first := first + int(count))
            classes = self._classes(rows[part], places[part])
            for name, grams in rows[part].grams.items():
                totals[name] += self._gram.deviation(name, grams, classes).sum()
        return {f"expected:{name}": torch.where(t == 0, 1.0, t / len(self.rows)) for name, t in totals.items()}


def _held_out(gram: Gram, total: int, labels: Tensor | None) -> Tensor:
    """Return the mask of held-out images, [N]: a tenth of all, or of each class, or none."""
    held, rng = np.zeros(total, dtype=np.bool_), numpy_generator(gram.seed, "gram")
    groups = [np.arange(total)] if gram.variant == "paper" else []
    if gram.variant == "openood":
        assert labels is not None
        classes = labels.cpu().numpy()
        groups = [np.flatnonzero(classes == label) for label in np.unique(classes)]
    for members in groups:
        held[members[rng.choice(len(members), len(members) // 10, replace=False)]] = True
    if gram.variant == "openood" and not held.any():
        raise ValueError(
            f"gram with variant='openood' holds out a tenth of each class, and no class has {LEAST} training images"
        )
    return torch.from_numpy(held)
