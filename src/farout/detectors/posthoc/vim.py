"""`vim`: virtual-logit matching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from farout.checks import check_count
from farout.core import Activations, PostHoc, Split
from farout.detectors.catalog import register
from farout.detectors.checks import Variant, check_finite, check_variant


@register
@dataclass(kw_only=True)
class ViM(PostHoc):
    """Virtual-logit matching (Wang et al. 2022, eq. 4 to 6): score = α‖Rᵀ(f − u)‖ − logsumexp(l).

    u = −pinv(W)·b; R the eigenvectors of E[(f − u)(f − u)ᵀ] on the training split after the `dim` largest; α the mean
    largest logit over the mean ‖Rᵀ(f − u)‖ there. dim: by default 1000 for D ≥ 2048 features, 512 for D ≥ 768, else
    D // 2. OpenOOD takes 256 everywhere: variant="openood" makes that the default.
    """

    name = "vim"
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

    def check_fit(self, total: int, labeled: bool) -> None:
        self._check_count(total, self._requested_dim or 0)

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
    def _requested_dim(self) -> int | None:
        """Number of principal directions, if it does not depend on the number of features."""
        return self.dim or (self.OPENOOD_DIM if self.variant == "openood" else None)

    def _check_count(self, total: int, dim: int) -> None:
        if total <= dim:
            raise ValueError(f"vim: dim={dim} needs more training images than that, got {total}")

    def _dim(self, width: int) -> int:
        """Return the number of principal directions."""
        dim = self._requested_dim or (1000 if width >= 2048 else 512 if width >= 768 else width // 2)
        if dim >= width:
            raise ValueError(f"vim: dim={dim} leaves no residual of {width} features; give a smaller dim")
        return dim


def _origin(activations: Activations, name: str) -> Tensor:
    """Return the features that the last layer maps to zero logits (least squares)."""
    weight, bias = activations.last_layer(name)
    origin: Tensor = -torch.linalg.pinv(weight.double()) @ bias.double()
    return origin


def _second_moment(activations: Activations, origin: Tensor) -> Tensor:
    """Return the mean outer product of f − u."""
    total = origin.new_zeros(len(origin), len(origin))
    for part in activations.chunks():
        shifted = part.features.double() - origin
        total.addmm_(shifted.T, shifted)
    return total / len(activations)


def _residuals(activations: Activations, origin: Tensor, residual: Tensor) -> Tensor:
    lengths: Tensor = ((activations.features.double() - origin) @ residual).norm(dim=1)
    return lengths
