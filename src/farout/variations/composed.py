"""`composed`: several variations in sequence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

from numpy.typing import ArrayLike
from torch import Tensor

from farout.core import ImageSet
from farout.variations.bounds import check_latents
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation


@VARIATIONS.register("composed")
@dataclasses.dataclass(kw_only=True)
class Composed(Variation):
    """Two or more variations in sequence, each applied to the previous one's output; their latents are concatenated.

    >>> Composed(of=[Affine(), Color(hue=(-0.1, 0.1))])
    """

    name = "composed"
    of: Sequence[Variation]
    """Variations in the order of application, each a `Variation`, a name, or a mapping of name and settings."""

    def __post_init__(self) -> None:
        if isinstance(self.of, str | Mapping) or not isinstance(self.of, Sequence) or len(self.of) < 2:
            raise ValueError(f"of must list two or more variations, got {self.of!r}")
        self.of = tuple(map(build_variation, self.of))
        for part in self.of:
            if part.domain != "cube" or not part.conditional:
                why = "is on the sphere" if part.domain != "cube" else "has no base"
                raise ValueError(
                    f"only variations with a base and a cube domain can be composed, and {part.name} {why}"
                )

    @property
    def label(self) -> str:
        return " + ".join(part.label for part in self.of)

    @property
    def parts(self) -> tuple[Variation, ...]:
        return tuple(self.of)

    @property
    def dim(self) -> int:
        """Number of latent coordinates: the sum over all parts."""
        return sum(part.dim for part in self.of)

    def base(self, images: ImageSet, indices: ArrayLike) -> Any:
        return self.of[0].base(images, indices)

    def suited(self, shape: tuple[int, ...]) -> Self:
        return dataclasses.replace(self, of=[part.suited(shape) for part in self.of])

    def decode(self, z: Tensor, base: Any) -> Tensor:
        """Decode with each part in turn."""
        check_latents(z, len(base), self.dim)
        for part, latents in zip(self.of, z.split([part.dim for part in self.of], 1), strict=True):
            base = part.decode(latents, base)
        decoded: Tensor = base
        return decoded

    def identity(self) -> dict[str, Any]:
        """Return the identities of the parts, in order."""
        return {"name": self.name, "version": self.version, "params": {"of": [part.identity() for part in self.of]}}


def build_variation(part: Variation | str | Mapping[str, Any]) -> Variation:
    """Build a variation from its name, or from a mapping of name and settings; a variation is returned unchanged."""
    if isinstance(part, Variation):
        return part
    settings = {"name": part} if isinstance(part, str) else part
    if not isinstance(settings, Mapping) or "name" not in settings:
        raise ValueError(f"expected a variation, its name, or a mapping with its name and settings, got {part!r}")
    return VARIATIONS.create(settings["name"], **{key: value for key, value in settings.items() if key != "name"})
