"""Variation interface: a decoder from latents to data, and the domain of the latents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from torch import Tensor

from farout.component import Component
from farout.core import ImageSet
from farout.identity import code_of, describe_held, is_users, token_of, unknown_code
from farout.variations.space import Domain, Space


class Variation(Component, ABC):
    """Changes that a search may make: the decoder g(z; x) of "Evaluation via Generation", eqs. 2 and 3.

    A subclass needs `dim` and `decode`; settings are best the fields of a dataclass. Data need not be images: `decode`
    returns whatever the detector reads.
    """

    domain: ClassVar[Domain] = "cube"
    """Domain of the latents: the unit cube [0, 1]^dim, or the unit sphere in dim dimensions."""
    conditional: ClassVar[bool] = True
    """True if it varies a base; if not, `decode` gets None as the base."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of latent coordinates."""

    @abstractmethod
    def decode(self, z: Tensor, base: Any) -> Tensor:
        """Decode the latents [B, dim], one per base: for images float32 [B, C, H, W] in [0, 1]."""

    def base(self, images: ImageSet, indices: ArrayLike) -> Any:
        """Return the bases of these images, as `decode` takes them."""
        return images.batch(indices)

    def suited(self, shape: tuple[int, ...]) -> Self:
        """Return the variation for data of this shape (C, H, W); raise if it cannot vary such data."""
        return self

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the coordinates of a latent."""
        return tuple(f"z{number}" for number in range(1, self.dim + 1))

    @property
    def parts(self) -> tuple[Variation, ...]:
        """Variations that it consists of; for most, itself alone."""
        return (self,)

    @property
    def space(self) -> Space:
        """Space of its latents."""
        return Space(self.dim, self.domain)

    def identity(self) -> dict[str, Any]:
        """Return what decides the decoded data, apart from latents and bases; of a user's class also its source."""
        users = is_users(type(self))
        held = describe_held(self.params)
        unknown = held is None or (users and code_of(type(self)) is None)
        own = {"code": unknown_code(type(self)) if unknown else code_of(type(self))} if users or unknown else {}
        return {"name": self.name, "version": self.version, "params": token_of(self) if held is None else held, **own}
