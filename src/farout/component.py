"""Component base: name, version, parameters, label and identity of everything that studies name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from farout.identity import own_identity


class Named:
    """Base of classes that are known by name: detectors, protocols, engines, and every `Component`."""

    name: str
    """The name it is known by and that tables show; the class's name unless set."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    @classmethod
    def check_study(cls, params: Mapping[str, Any]) -> None:
        """Raise ValueError where a study, which is stored with its results, must not hold these parameters."""


class Component(Named):
    """Base of what decides results by its parameters alone; in a dataclass these are its fields."""

    version: ClassVar[int] = 1
    """Bumped by hand when the same parameters give other results."""

    @property
    def params(self) -> dict[str, Any]:
        """All parameters with their values: the fields of a dataclass, else all attributes."""
        if dataclasses.is_dataclass(self):
            return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}
        return dict(vars(self))

    @property
    def label(self) -> str:
        """The name in tables."""
        return self.name

    def identity(self) -> dict[str, Any]:
        """Return what decides results, apart from the inputs; of a user's class also its source."""
        return {"name": self.name, "version": self.version, "params": self.params, **own_identity(self)}
