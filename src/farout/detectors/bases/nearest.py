"""Base of the detectors that measure distances to the nearest training features."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor

from farout import rng
from farout.checks import check_choice, check_count
from farout.core import Activations, PostHoc, Reduction, Split
from farout.detectors.bases.banks import BankReduction, bank_label, check_bank
from farout.detectors.checks import check_finite
from farout.detectors.math import faiss_index as flat
from farout.detectors.math.neighbors import Bank, Search, row_lengths


@dataclass(kw_only=True)
class Nearest(PostHoc):
    """Base of the detectors that use distances to the nearest training features.

    search: library that proposes neighbors, "torch" or "faiss" (an optional extra). Float64 differences decide among
    the proposals, so the scores are the same.
    """

    fits_on: ClassVar[Split | None] = "train"
    added: ClassVar[frozenset[str]] = frozenset({"bank"})
    unit: ClassVar[bool]
    """True if features are scaled to length 1."""
    k: int
    """Rank of the neighbor, or number of neighbors, that is used."""
    search: Search = "torch"
    bank: int | None = None
    """Largest number of training images in the bank, drawn with a fixed seed; None for all of them, as in the paper."""

    def __post_init__(self) -> None:
        check_count("k", self.k)
        check_bank(self.bank)
        check_choice("search", self.search, ("torch", "faiss"))

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"features"})

    def check_fit(self, total: int, labeled: bool) -> None:
        if total < self.k:
            raise ValueError(f"{self.name}: k={self.k} needs at least that many training images, got {total}")
        if self.bank is not None and self.bank < self.k:
            raise ValueError(f"{self.name}: k={self.k} needs at least that many images in its bank, got {self.bank}")
        if self.search == "faiss":
            flat.import_faiss()

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        if self.bank is not None:
            return self.fit_reduced(activations, labels)
        self.keep(activations)
        return self

    def reduction(self, total: int, labels: Tensor | None) -> Reduction | None:
        return None if self.bank is None else BankReduction(rng.subset_indices(total, self.bank), self.keep)

    def keep(self, activations: Activations) -> None:
        """Make these rows the bank."""
        activations = self.read(activations)
        check_finite(activations, self.name)
        self.state = {"bank": activations.features, "lengths": row_lengths(activations.features)}

    def read(self, activations: Activations) -> Activations:
        """Return the activations with what is compared as features."""
        return activations

    @property
    def label(self) -> str:
        return bank_label(self.name, self.bank)

    def score(self, activations: Activations) -> Tensor:
        bank = Bank(self.fitted("bank"), self.fitted("lengths"), self.unit, self.search)
        return self.distance(bank, self.read(activations).features)

    @abstractmethod
    def distance(self, bank: Bank, features: Tensor) -> Tensor:
        """Return the score of every row from its distances to the bank."""
