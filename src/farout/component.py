"""Component base: name, version, parameters, label and identity of everything that a study can name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from farout.identity import own_identity


class Named:
    """Base of classes with a registered name: detectors, protocols, engines, and every `Component`."""

    name: str
    """Registered name, which tables show; by default the name of the class."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    @classmethod
    def check_study(cls, params: Mapping[str, Any]) -> None:
        """Raise ValueError for parameters that a study must not hold, such as secrets: studies are stored as text."""

    @classmethod
    def resolve_study(cls, params: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """Return the parameters with paths relative to the study's folder made absolute, where their type does not say
        that they are paths: those are resolved already."""
        return params


class Component(Named):
    """Base of objects whose results depend on their parameters only; in a dataclass these are its fields."""

    version: ClassVar[int] = 1
    """Increased by hand when the same parameters give other results."""
    added: ClassVar[frozenset[str]] = frozenset()
    """Fields of a dataclass that were added later: the identity names them only where they differ from their default,
    so that results stored before keep their identity."""

    @property
    def params(self) -> dict[str, Any]:
        """All parameters with their values: the fields of a dataclass, else all attributes."""
        if dataclasses.is_dataclass(self):
            return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}
        return dict(vars(self))

    @property
    def label(self) -> str:
        """Name in tables."""
        return self.name

    def identity(self) -> dict[str, Any]:
        """Return everything that the results depend on, apart from the inputs; for a user's class also its source."""
        params = {key: value for key, value in self.params.items() if key not in self._unchanged}
        return {"name": self.name, "version": self.version, "params": params, **own_identity(self)}

    @property
    def _unchanged(self) -> set[str]:
        """Fields of `added` that have their default."""
        fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(self) if dataclasses.is_dataclass(self) else ()
        return {one.name for one in fields if one.name in self.added and getattr(self, one.name) == one.default}
