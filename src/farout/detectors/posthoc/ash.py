"""`ash`: activation shaping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from farout.checks import check_choice, check_percent
from farout.core import Activations
from farout.detectors.bases.shaping import Shaping, kept_count, sharpening
from farout.detectors.catalog import register
from farout.detectors.checks import Variant, check_variant

Kind = Literal["P", "S", "B"]


@register
@dataclass(kw_only=True)
class ASH(Shaping):
    """Activation shaping (Djurisic et al. 2023): only the largest entries of f are kept, k of n.

    k = n − round(n · percentile / 100); of equal entries the earlier ones are kept. Kind "P" keeps the values of the
    kept entries, "S" (the default) multiplies them by exp(Σf before / Σf after), "B" sets each to Σf / k. OpenOOD uses
    kind B on the pooled features, and variant="openood" makes that the default; an explicit kind is the same in both.
    """

    name = "ash"
    kind: Kind | None = None
    """Treatment of the kept entries: "P", "B" or "S"; None: the variant's default."""
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
        kept = _largest(features, kept_count(features, self.percentile, self.name))
        match self.kind or ("S" if self.variant == "paper" else "B"):
            case "P":
                return features * kept
            case "S":
                return features * kept * sharpening(features, (features * kept).sum(1, keepdim=True))
            case _:
                return kept * (features.sum(1, keepdim=True) / kept.sum(1, keepdim=True))


def _largest(features: Tensor, count: int) -> Tensor:
    """Return 1 at the `count` largest entries of every row and 0 elsewhere; of equal entries the earlier ones."""
    least = features.topk(count, dim=1).values[:, -1:]
    above, equal = features > least, features == least
    missing = count - above.sum(1, keepdim=True)
    return (above | (equal & (equal.long().cumsum(1) <= missing))).to(features.dtype)
