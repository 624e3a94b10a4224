"""Settings of the trained detectors: presets, changes of the recipe, and those in the header of a weights file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from farout.checks import check_choice, check_sizes
from farout.component import Component
from farout.identity import own_identity
from farout.training import Recipe, files

Preset = Literal["small", "full"]
"""Settings: those that train on two cores in minutes, or the paper's."""
PRESETS: tuple[Preset, ...] = ("small", "full")
_GIVEN = "given"
BY_PRESET: Any = None
"""Default of a field whose value the preset sets."""


@dataclass(kw_only=True, eq=False)
class Settings(Component):
    """Parameters of a trained detector; a field with the default BY_PRESET takes the preset's value."""

    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {"small": {}, "full": {}}
    """Values of the fields with the default BY_PRESET."""
    files: ClassVar[tuple[str, ...]] = ("weights",)
    """Parameters that are paths of files, of which only the content matters."""

    preset: Preset = BY_PRESET
    """"small" (minutes on two cores) or "full" (the paper's settings); by default that of the weights, else small."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `farout.training.Recipe` that differ from the preset's: {epochs: 3, lr: 0.001}."""
    weights: str | Path | None = None
    """File that `save`, `farout train` or `farout import` wrote; its settings hold where none are given, and `fit` does
    not train."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Note which parameters were given: of the others, a weights file decides. `__post_init__` removes the note."""
        detector = super().__new__(cls)
        vars(detector)[_GIVEN] = frozenset(given)
        return detector

    def __post_init__(self) -> None:
        given = vars(self).pop(_GIVEN)
        if self.weights is not None:
            self._take_settings(Path(self.weights), given)
        if self.preset is BY_PRESET:
            self.preset = "small"
        check_choice("preset", self.preset, PRESETS)
        for name, value in self.presets[self.preset].items():
            if getattr(self, name) is BY_PRESET:
                setattr(self, name, value)
        if not isinstance(self.training, Mapping):
            raise TypeError(f"training must map settings to values, such as {{epochs: 3}}, got {self.training!r}")
        check_sizes(self.name, self.params)
        self.changed_recipe()  # raise now if a setting is unknown

    def _take_settings(self, path: Path, given: frozenset[str]) -> None:
        """Take the settings in a file's header where none are given; raise for those that it cannot have."""
        found = files.header(path, "detector")
        files.check_model(path, "detector", found, files.Header(self.name, self.version, {}))
        if self.training:
            raise ValueError(f"{path} holds a trained {self.name}: leave out training, got {dict(self.training)}")
        if self.preset is not BY_PRESET and self.preset != found.params["preset"]:
            raise ValueError(f"{path} holds {self.name} with preset {found.params['preset']}, got {self.preset}")
        for name in _defaults(type(self)):
            if name in found.params and name not in given:
                value = found.params[name]
                setattr(self, name, tuple(value) if isinstance(value, list) else value)

    @abstractmethod
    def recipe(self) -> Recipe:
        """Return the preset's recipe."""

    def changed_recipe(self, seed: int = 0) -> Recipe:
        """Return the recipe with the changes of `training`."""
        return self.recipe().changed(**{"seed": seed, **self.training})

    @property
    def stored_params(self) -> dict[str, Any]:
        """All parameters but paths of files."""
        return {name: value for name, value in self.params.items() if name not in self.files}

    @property
    def label(self) -> str:
        """Name with the preset and the settings that differ from it: "ae (small, epochs=3)"."""
        usual = {**_defaults(type(self)), **self.presets[self.preset], "preset": self.preset, "training": self.training}
        changed = {name: value for name, value in self.stored_params.items() if value != usual[name]}
        settings = [f"{key}={value}" for key, value in {**changed, **self.training}.items()]
        return f"{self.name} ({', '.join([self.preset, *settings])})"

    def identity(self) -> dict[str, Any]:
        """Return the settings and the whole recipe."""
        left_out = {"training", *self._unchanged}
        settings = {name: value for name, value in self.stored_params.items() if name not in left_out}
        recipe = self.changed_recipe().identity()
        return {"name": self.name, "version": self.version, "params": settings, "recipe": recipe, **own_identity(self)}


def _defaults(cls: type[Settings]) -> dict[str, Any]:
    """Return the parameters of a detector with their defaults."""
    known = [one for one in fields(cls) if one.init]
    return {one.name: one.default if one.default_factory is MISSING else one.default_factory() for one in known}
