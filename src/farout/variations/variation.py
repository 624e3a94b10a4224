"""What a variation promises: a decoder from latents to data, and the domain the latents live in."""

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
    """What may change in a search: g(z; x) of "Evaluation via Generation", eqs. 2 and 3.

    A class of your own needs `dim` and `decode`; settings are best the fields of a dataclass. Data need not be images:
    `decode` makes whatever the detector reads.
    """

    domain: ClassVar[Domain] = "cube"
    """The unit cube [0, 1]^dim, or the unit sphere in dim dimensions."""
    conditional: ClassVar[bool] = True
    """Does it vary a base? If not, `decode` gets None for one."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Coordinates of a latent."""

    @abstractmethod
    def decode(self, z: Tensor, base: Any) -> Tensor:
        """What the latents [B, dim] make of the bases, one each: of images float32 [B, C, H, W] in [0, 1]."""

    def base(self, images: ImageSet, indices: ArrayLike) -> Any:
        """What `decode` varies of these images."""
        return images.batch(indices)

    def suited(self, shape: tuple[int, ...]) -> Self:
        """The same for data of this shape (C, H, W); an error where it cannot vary such."""
        return self

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the coordinates of a latent."""
        return tuple(f"z{number}" for number in range(1, self.dim + 1))

    @property
    def parts(self) -> tuple[Variation, ...]:
        """The variations that it is made of; itself alone for most."""
        return (self,)

    @property
    def space(self) -> Space:
        """Where its latents live."""
        return Space(self.dim, self.domain)

    def identity(self) -> dict[str, Any]:
        """Return what decides the decoded data, apart from latents and bases; of a user's class also its source."""
        users = is_users(type(self))
        held = describe_held(self.params)
        unknown = held is None or (users and code_of(type(self)) is None)
        own = {"code": unknown_code(type(self)) if unknown else code_of(type(self))} if users or unknown else {}
        return {"name": self.name, "version": self.version, "params": token_of(self) if held is None else held, **own}
