"""Detectors that read features f and logits l together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from farout.core import Activations, PostHoc, Split, parts
from farout.detectors.catalog import register
from farout.detectors.checks import Variant, check_classes, check_count, check_finite, check_variant
from farout.detectors.neighbours import unit
from farout.rng import numpy_generator


@register
@dataclass(kw_only=True)
class ViM(PostHoc):
    """Virtual-logit matching (Wang et al. 2022, eq. 4 to 6): score = α‖Rᵀ(f − u)‖ − logsumexp(l).

    u = −pinv(W)·b; R the eigenvectors of E[(f − u)(f − u)ᵀ] on the training split after the `dim` largest; α the mean
    largest logit over the mean ‖Rᵀ(f − u)‖ there. dim: by default 1000 for D ≥ 2048 features, 512 for D ≥ 768, else
    D // 2. OpenOOD takes 256 everywhere: variant="openood" makes that the default.
    """

    name: ClassVar[str] = "vim"
    needs: ClassVar[frozenset[str]] = frozenset({"logits", "features", "head"})
    fits_on: ClassVar[Split | None] = "train"
    dim: int | None = None
    """Dimensions of the principal subspace."""
    variant: Variant = "paper"

    OPENOOD_DIM: ClassVar[int] = 256

    def __post_init__(self) -> None:
        check_variant(self.variant)
        if self.dim is not None:
            check_count("dim", self.dim)

    def check_network(self, activations: Activations) -> None:
        self._dim(activations.features.shape[1])

    def check_fit(self, total: int, labelled: bool) -> None:
        self._check_count(total, self._given or 0)

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        check_finite(activations, self.name)
        dim = self._dim(activations.features.shape[1])
        self._check_count(len(activations), dim)
        origin = _origin(activations, self.name)
        values, vectors = torch.linalg.eigh(_second_moment(activations, origin))
        residual = vectors[:, : len(values) - dim]
        lengths = torch.cat([_residuals(part, origin, residual) for part in activations.chunks()])
        if not lengths.mean() > 1e-6 * values.sum().sqrt():
            raise ValueError(f"vim: the training features do not leave their {dim} principal directions; lower dim")
        alpha = activations.logits.double().amax(1).mean() / lengths.mean()
        self.state = {"origin": origin, "residual": residual.contiguous(), "alpha": alpha}
        return self

    def score(self, activations: Activations) -> Tensor:
        lengths = _residuals(activations, self.fitted("origin"), self.fitted("residual"))
        return self.fitted("alpha") * lengths - activations.logits.double().logsumexp(1)

    @property
    def _given(self) -> int | None:
        """How many directions are principal, where that does not depend on the features."""
        return self.dim or (self.OPENOOD_DIM if self.variant == "openood" else None)

    def _check_count(self, total: int, dim: int) -> None:
        if total <= dim:
            raise ValueError(f"vim: dim={dim} needs more training images than that, got {total}")

    def _dim(self, width: int) -> int:
        """How many directions are principal."""
        dim = self._given or (1000 if width >= 2048 else 512 if width >= 768 else width // 2)
        if dim >= width:
            raise ValueError(f"vim: dim={dim} leaves nothing of {width} features; give a smaller one")
        return dim


def _origin(activations: Activations, who: str) -> Tensor:
    """The features that the last layer maps to zero logits (least squares)."""
    weight, bias = activations.last_layer(who)
    origin: Tensor = -torch.linalg.pinv(weight.double()) @ bias.double()
    return origin


def _second_moment(activations: Activations, origin: Tensor) -> Tensor:
    """Mean outer product of f − u."""
    total = origin.new_zeros(len(origin), len(origin))
    for part in activations.chunks():
        shifted = part.features.double() - origin
        total.addmm_(shifted.T, shifted)
    return total / len(activations)


def _residuals(activations: Activations, origin: Tensor, residual: Tensor) -> Tensor:
    lengths: Tensor = ((activations.features.double() - origin) @ residual).norm(dim=1)
    return lengths


@register
@dataclass(kw_only=True)
class NNGuide(PostHoc):
    """Nearest-neighbour guidance (Park et al. 2023, eq. 4 and 5): score = −logsumexp(l) · guidance.

    The guidance is the mean of the k largest inner products of f/‖f‖ with the bank, which holds f/‖f‖·logsumexp(l) of
    1 % of the training split drawn by `seed`, but at least 1,000 images, or all. OpenOOD takes the first images as they
    come, in batches until they are more than 1 %: variant="openood", with the 200 per batch that its evaluator has.
    """

    name: ClassVar[str] = "nnguide"
    version: ClassVar[int] = 2
    needs: ClassVar[frozenset[str]] = frozenset({"logits", "features"})
    fits_on: ClassVar[Split | None] = "train"
    k: int = 100
    """The neighbors whose products with the image are averaged."""
    seed: int = 0
    variant: Variant = "paper"

    AT_LEAST: ClassVar[int] = 1000
    BATCH: ClassVar[int] = 200
    """Images that OpenOOD's evaluator reads at a time by default."""
    ROWS: ClassVar[int] = 256
    """Rows compared with the bank at a time."""

    def __post_init__(self) -> None:
        check_variant(self.variant)
        check_count("k", self.k)

    def check_fit(self, total: int, labelled: bool) -> None:
        if self._size(total) < self.k:
            bank = self._size(total)
            raise ValueError(f"nnguide: k={self.k} needs at least that many images in its bank, got {bank} of {total}")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        check_finite(activations, self.name)
        chosen = self._chosen(len(activations))
        energies = activations.logits[chosen].double().logsumexp(1)
        self.state = {"bank": unit(activations.features[chosen]) * energies[:, None]}
        return self

    def score(self, activations: Activations) -> Tensor:
        products = (part @ self.fitted("bank").T for part in parts(unit(activations.features), self.ROWS))
        guidance = torch.cat([product.topk(self.k, dim=1, sorted=False).values.mean(1) for product in products])
        return -activations.logits.double().logsumexp(1) * guidance

    def _size(self, total: int) -> int:
        """Return how many of the training images the bank holds."""
        share = total // 100
        size = (share // self.BATCH + 1) * self.BATCH if self.variant == "openood" else max(self.AT_LEAST, share)
        return min(total, size)

    def _chosen(self, total: int) -> Tensor:
        if self.variant == "openood":
            return torch.arange(self._size(total), device="cpu")
        drawn = numpy_generator(self.seed, "nnguide").choice(total, self._size(total), replace=False)
        return torch.from_numpy(drawn).sort().values


@register
@dataclass(kw_only=True)
class SHE(PostHoc):
    """Simplified Hopfield energy (Zhang et al. 2023, eq. 9): score = −f·μ_ŷ.

    μ_k is the mean f of the training images of class k that the network classifies correctly; where there are none, of
    all of class k; and zero for a class without training images. OpenOOD does the same where every class has a correct
    image, and gives NaN where not.
    """

    name: ClassVar[str] = "she"
    needs: ClassVar[frozenset[str]] = frozenset({"logits", "features"})
    fits_on: ClassVar[Split | None] = "train"

    def check_fit(self, total: int, labelled: bool) -> None:
        if not labelled:
            raise ValueError("she needs the class of every training image: give a training set with labels")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        check_finite(activations, self.name)
        assert labels is not None
        check_classes(labels, activations, self.name)
        correct, everything = _class_sums(activations, labels, activations.logits.shape[1])
        sums = torch.where(correct[:, -1:] > 0, correct, everything)
        self.state = {"means": sums[:, :-1] / sums[:, -1:].clamp(min=1)}
        return self

    def score(self, activations: Activations) -> Tensor:
        means = self.fitted("means")[activations.logits.argmax(1)]
        return -(activations.features.double() * means).sum(1)


def _class_sums(activations: Activations, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Per class the sum of the features of the correctly classified and of all images; the last column counts them."""
    features = activations.features
    correct = features.new_zeros(count, features.shape[1] + 1, dtype=torch.float64)
    everything = correct.clone()
    for part, classes in zip(activations.chunks(), labels.split(1024), strict=True):
        rows = torch.cat([part.features.double(), correct.new_ones(len(part), 1)], 1)
        right = part.logits.argmax(1) == classes
        everything.index_add_(0, classes, rows)
        correct.index_add_(0, classes[right], rows[right])
    return correct, everything
