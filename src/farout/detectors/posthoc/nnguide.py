"""`nnguide`: nearest neighbor guidance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.checks import check_count
from farout.core import Activations, PostHoc, Reduction, Split
from farout.detectors.bases.banks import BankReduction, bank_label, check_bank
from farout.detectors.catalog import register
from farout.detectors.checks import Variant, check_finite, check_variant
from farout.detectors.math.neighbors import unit
from farout.rng import numpy_generator
from farout.tensors import parts


@register
@dataclass(kw_only=True)
class NNGuide(PostHoc):
    """Nearest-neighbor guidance (Park et al. 2023, eq. 4 and 5): score = −logsumexp(l) · guidance.

    The guidance is the mean of the k largest inner products of f/‖f‖ with the bank, which holds f/‖f‖·logsumexp(l)
    of 1 % of the training split drawn by `seed`, but at least 1,000 images, or all. OpenOOD takes the first images
    in order, in batches until they exceed 1 %: variant="openood", with its evaluator's 200 images per batch.
    """

    name = "nnguide"
    version: ClassVar[int] = 2
    added: ClassVar[frozenset[str]] = frozenset({"bank"})
    needs: ClassVar[frozenset[str]] = frozenset({"logits", "features"})
    fits_on: ClassVar[Split | None] = "train"
    k: int = 100
    """Number of largest products that are averaged."""
    seed: int = 0
    variant: Variant = "paper"
    bank: int | None = None
    """Largest number of training images in the bank; None for 1 % of them, as in the paper."""

    AT_LEAST: ClassVar[int] = 1000
    BATCH: ClassVar[int] = 200
    """Default batch size of OpenOOD's evaluator."""
    ROWS: ClassVar[int] = 256
    """Rows compared with the bank at a time."""

    def __post_init__(self) -> None:
        check_variant(self.variant)
        check_count("k", self.k)
        check_bank(self.bank)

    def check_fit(self, total: int, labeled: bool) -> None:
        if self._size(total) < self.k:
            bank = self._size(total)
            raise ValueError(f"nnguide: k={self.k} needs at least that many images in its bank, got {bank} of {total}")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        return self.fit_reduced(activations, labels)

    def reduction(self, total: int, labels: Tensor | None) -> Reduction:
        return BankReduction(self._select_images(total), self._keep)

    @property
    def label(self) -> str:
        return bank_label(self.name, self.bank)

    def score(self, activations: Activations) -> Tensor:
        products = (part @ self.fitted("bank").T for part in parts(unit(activations.features), self.ROWS))
        guidance = torch.cat([product.topk(self.k, dim=1, sorted=False).values.mean(1) for product in products])
        return -activations.logits.double().logsumexp(1) * guidance

    def _keep(self, activations: Activations) -> None:
        """Make these rows the bank."""
        check_finite(activations, self.name)
        energies = activations.logits.double().logsumexp(1)
        self.state = {"bank": unit(activations.features) * energies[:, None]}

    def _size(self, total: int) -> int:
        """Return the number of training images in the bank."""
        share = total // 100
        size = (share // self.BATCH + 1) * self.BATCH if self.variant == "openood" else max(self.AT_LEAST, share)
        return min(total, size if self.bank is None else min(size, self.bank))

    def _select_images(self, total: int) -> NDArray[np.int64]:
        if self.variant == "openood":
            return np.arange(self._size(total))
        return np.sort(numpy_generator(self.seed, "nnguide").choice(total, self._size(total), replace=False))
