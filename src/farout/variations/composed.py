"""`composed`: variations one after the other."""

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
    """Two or more variations, each applied to what the one before has decoded; latents stand side by side.

    >>> Composed(of=[Affine(), Color(hue=(-0.1, 0.1))])
    """

    name = "composed"
    of: Sequence[Variation]
    """In the order of application; a name, or a mapping of name and settings, stands for a variation."""

    def __post_init__(self) -> None:
        if isinstance(self.of, str | Mapping) or not isinstance(self.of, Sequence) or len(self.of) < 2:
            raise ValueError(f"of must list two or more variations, got {self.of!r}")
        self.of = tuple(map(made, self.of))
        for part in self.of:
            if part.domain != "cube" or not part.conditional:
                why = "lives on the sphere" if part.domain != "cube" else "varies no base"
                raise ValueError(f"only variations of a base by a cube can be composed, and {part.name} {why}")

    @property
    def label(self) -> str:
        return " + ".join(part.label for part in self.of)

    @property
    def parts(self) -> tuple[Variation, ...]:
        return tuple(self.of)

    @property
    def dim(self) -> int:
        """Coordinates of a latent: those of all parts."""
        return sum(part.dim for part in self.of)

    def base(self, images: ImageSet, indices: ArrayLike) -> Any:
        return self.of[0].base(images, indices)

    def suited(self, shape: tuple[int, ...]) -> Self:
        return dataclasses.replace(self, of=[part.suited(shape) for part in self.of])

    def decode(self, z: Tensor, base: Any) -> Tensor:
        """What the last part makes of what the others made of the bases."""
        check_latents(z, len(base), self.dim)
        for part, latents in zip(self.of, z.split([part.dim for part in self.of], 1), strict=True):
            base = part.decode(latents, base)
        decoded: Tensor = base
        return decoded

    def identity(self) -> dict[str, Any]:
        """The identities of the parts, in order."""
        return {"name": self.name, "version": self.version, "params": {"of": [part.identity() for part in self.of]}}


def made(part: Variation | str | Mapping[str, Any]) -> Variation:
    """A variation from its name, or from a mapping with its name and settings; one that is made already as it is."""
    if isinstance(part, Variation):
        return part
    settings = {"name": part} if isinstance(part, str) else part
    if not isinstance(settings, Mapping) or "name" not in settings:
        raise ValueError(f"expected a variation, its name, or a mapping with its name and settings, got {part!r}")
    return VARIATIONS.create(settings["name"], **{key: value for key, value in settings.items() if key != "name"})
