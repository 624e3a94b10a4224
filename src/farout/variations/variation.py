"""What a variation promises: a decoder from latents to data, and the domain the latents live in."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from torch import Tensor

from farout.core import ImageSet
from farout.describe import code_of, describe_held, token_of, unknown_code
from farout.identity import is_users
from farout.variations.space import Domain, Space


class Variation(ABC):
    """What may change in a search: g(z; x) of "Evaluation via Generation", eqs. 2 and 3.

    A class of your own needs `dim` and `decode`; settings are best the fields of a dataclass. Data need not be images:
    `decode` makes whatever the detector reads.
    """

    name: ClassVar[str]
    """The name it is known by; the class's name unless set."""
    version: ClassVar[int] = 1
    """Bumped by hand when the same settings give other images."""
    domain: ClassVar[Domain] = "cube"
    """The unit cube [0, 1]^dim, or the unit sphere in dim dimensions."""
    conditional: ClassVar[bool] = True
    """Does it vary a base? If not, `decode` gets None for one."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

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
    def label(self) -> str:
        """What tables call it."""
        return self.name

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

    @property
    def params(self) -> dict[str, Any]:
        """All settings with their values."""
        if dataclasses.is_dataclass(self):
            return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}
        return dict(vars(self))

    def identity(self) -> dict[str, Any]:
        """What decides the decoded data, apart from latents and bases; of a user's class also its source."""
        users = is_users(type(self))
        held = describe_held(self.params)
        unknown = held is None or (users and code_of(type(self)) is None)
        own = {"code": unknown_code(type(self)) if unknown else code_of(type(self))} if users or unknown else {}
        return {"name": self.name, "version": self.version, "params": token_of(self) if held is None else held, **own}
