"""Detectors that read the penultimate features f."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from farout.core import Activations, PostHoc, Split
from farout.detectors import flat
from farout.detectors.catalog import register
from farout.detectors.checks import check_choice, check_count, check_finite
from farout.detectors.gaussian import fitted_gaussians, squared_distances
from farout.detectors.neighbours import Bank, Search, row_lengths
from farout.registry import unknown


@dataclass(kw_only=True)
class Nearest(PostHoc):
    """A detector of the distances to the nearest training features.

    search: what proposes neighbours, "torch" or "faiss" (an optional extra). Float64 differences decide among them, so
    the scores are the same.
    """

    fits_on: ClassVar[Split | None] = "train"
    unit: ClassVar[bool]
    """Are features scaled to length 1?"""
    k: int
    """Which neighbor counts, or how many do."""
    search: Search = "torch"

    def __post_init__(self) -> None:
        check_count("k", self.k)
        check_choice("search", self.search, ("torch", "faiss"))

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"features"})

    def check_fit(self, total: int, labelled: bool) -> None:
        if total < self.k:
            raise ValueError(f"{self.name}: k={self.k} needs at least that many training images, got {total}")
        if self.search == "faiss":
            flat.library()

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        check_finite(activations, self.name)
        self.state = {"bank": activations.features, "lengths": row_lengths(activations.features)}
        return self

    def score(self, activations: Activations) -> Tensor:
        bank = Bank(self.fitted("bank"), self.fitted("lengths"), self.unit, self.search)
        return self.distance(bank, activations.features)

    @abstractmethod
    def distance(self, bank: Bank, features: Tensor) -> Tensor:
        """The score of every row, by its distances to the bank."""


@register
@dataclass(kw_only=True)
class KNN(Nearest):
    """Distance to the k-th nearest training feature, all features scaled to length 1 (Sun et al. 2022, eq. 3).

    OpenOOD takes the squared distance, which ranks alike. search: "torch", or "faiss" where that extra is installed;
    the scores are the same.
    """

    name: ClassVar[str] = "knn"
    unit: ClassVar[bool] = True
    k: int = 50
    """The neighbor whose distance is the score."""

    def distance(self, bank: Bank, features: Tensor) -> Tensor:
        return bank.nearest(features, self.k - 1, self.k).squeeze(1)


@register
@dataclass(kw_only=True)
class DN2(Nearest):
    """Mean Euclidean distance to the k = 2 nearest training features, as they are (Bergman et al. 2020).

    A one-class detector: all of the training split is the one class, its labels play no part. The features are those
    of the panel's network; the paper's is pretrained on other images. OpenOOD has no such detector. search: as for knn.

    layer: None for the penultimate features; else a block of the network, for a study of layers (Khazaie et al. 2022,
    Table 5): by its name, or by its number from 1 in `network.block_names`, where a stem may come first.
    places: the layer's output averaged over all places ("mean"), which of the last stage of a ResNet are the features
    themselves, or over each of 4×4 fields, side by side ("grid").
    """

    name: ClassVar[str] = "dn2"
    unit: ClassVar[bool] = False
    k: int = 2
    """The neighbors whose distances are averaged."""
    layer: int | str | None = None
    places: Literal["mean", "grid"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer is not None and not isinstance(self.layer, str):
            check_count("layer, where it is no name,", self.layer)
        check_choice("places", self.places, ("mean", "grid"))
        if self.layer is None and self.places != "mean":
            raise ValueError(f"{self.name}: places={self.places!r} says how a layer is read: give layer= too")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"features" if self.layer is None else f"{self.places}s"})

    def check_network(self, activations: Activations) -> None:
        self._read(activations)

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        return super().fit(self._read(activations), labels)

    def score(self, activations: Activations) -> Tensor:
        return super().score(self._read(activations))

    def _read(self, activations: Activations) -> Activations:
        """The activations with what is read of the layer as features."""
        if self.layer is None:
            return activations
        told = activations.means if self.places == "mean" else activations.grids
        blocks = list(told)
        if not blocks:
            (kind,) = self.needs
            raise ValueError(f"{self.name} with layer={self.layer!r} reads the blocks' {kind}: needs={{{kind!r}}}")
        if isinstance(self.layer, str) and self.layer not in blocks:
            raise unknown(f"layer of this network for {self.name}:", self.layer, blocks)
        if isinstance(self.layer, int) and self.layer > len(blocks):
            raise ValueError(
                f"{self.name}: layer={self.layer}, and the network has {len(blocks)} blocks: {', '.join(blocks)}"
            )
        name = self.layer if isinstance(self.layer, str) else blocks[self.layer - 1]
        return replace(activations, features=told[name])

    def distance(self, bank: Bank, features: Tensor) -> Tensor:
        return bank.nearest(features, 0, self.k).mean(1)


class Mahalanobis(PostHoc):
    """A detector of the distances to the class means under one shared covariance.

    Penultimate features only. Directions without variance in training are left out (pseudo-inverse).
    """

    needs: ClassVar[frozenset[str]] = frozenset({"features"})
    fits_on: ClassVar[Split | None] = "train"

    def check_fit(self, total: int, labelled: bool) -> None:
        if not labelled:
            raise ValueError(f"{self.name} needs the class of every training image: give a training set with labels")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        check_finite(activations, self.name)
        assert labels is not None
        present, classes = labels.unique(return_inverse=True)
        whitening, means = fitted_gaussians(activations.features, classes, len(present))
        if not whitening.shape[1]:
            raise ValueError(
                f"{self.name}: the features of {len(activations)} training images do not vary within {len(present)} "
                "classes; give more images per class"
            )
        self.state = {"whitener": whitening, "means": means}
        return self

    def nearest(self, activations: Activations) -> Tensor:
        """Squared distance of every row to the nearest class mean."""
        return squared_distances(activations.features, self.fitted("whitener"), self.fitted("means")).amin(1)


@register
@dataclass(kw_only=True)
class MDS(Mahalanobis):
    """Mahalanobis distance to the nearest class mean, one shared covariance (Lee et al. 2018, eq. 2).

    Penultimate features only. Directions without variance in training are left out (pseudo-inverse).
    """

    name: ClassVar[str] = "mds"

    def score(self, activations: Activations) -> Tensor:
        return self.nearest(activations)


@register
@dataclass(kw_only=True)
class RMDS(Mahalanobis):
    """Relative Mahalanobis distance (Ren et al. 2021): score = min_k d_k − d_0.

    d_k is the squared distance of mds to the mean of class k; d_0 that to the mean of all training features, under
    their covariance without regard to classes. OpenOOD computes the same in float32. Directions without variance are
    left out of either.
    """

    name: ClassVar[str] = "rmds"
    compares_classes: ClassVar[bool] = True

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        super().fit(activations, labels)
        if len(self.state["means"]) < 2:
            self.state = {}
            raise ValueError("rmds compares classes with their union: give a training set of at least two classes")
        everything = torch.zeros(len(activations), dtype=torch.long, device=activations.features.device)
        whitening, mean = fitted_gaussians(activations.features, everything, 1)
        self.state |= {"background_whitener": whitening, "background_mean": mean}
        return self

    def score(self, activations: Activations) -> Tensor:
        whitening, mean = self.fitted("background_whitener"), self.fitted("background_mean")
        return self.nearest(activations) - squared_distances(activations.features, whitening, mean).squeeze(1)
