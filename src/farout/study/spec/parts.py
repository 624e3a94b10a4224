"""Base of all specs, components by name with their parameters, and the budgets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from farout.component import Named
from farout.registry import UnknownName, registry_of, unknown
from farout.study.paths import find_factories, resolve_paths

Budget = Literal["quick", "standard", "full"]
BUDGETS: tuple[Budget, ...] = ("quick", "standard", "full")

Label = Annotated[str, Field(min_length=1)]
"""Name that tables use."""
SPLIT = "give both splits: inliers: {train: …, test: …}, each a name, a file or a folder"
"""Advice in errors about inliers without a train split."""


@contextmanager
def suggest_plugin() -> Iterator[None]:
    """Add the advice to use --plugin to errors about unknown names."""
    try:
        yield
    except UnknownName as error:
        raise UnknownName(f"{error} If it is one of your own, name its file with --plugin.") from None


class Spec(BaseModel):
    """Base of all specs: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if isinstance(value, dict):
            check_keys(cls, value, cls.model_fields)
        return value


def check_keys(cls: type[Any], keys: Iterable[Any], known: Iterable[str]) -> None:
    """Raise for a key that a spec does not have."""
    known = list(known)
    for key in keys:
        if key not in known:
            raise ValueError(str(unknown(f"key in {cls.__name__.removesuffix('Spec').lower()}:", key, known)))


def named(value: Any) -> Any:
    """Expand a bare string to {name: string}."""
    return {"name": value} if isinstance(value, str) else value


def find_path(name: str, info: ValidationInfo) -> Path:
    """Return a path of the study file, resolved against the file's folder."""
    return folder_of(info) / Path(name).expanduser()


def resolve_path(path: str, info: ValidationInfo) -> str:
    """Return a path of the study file as absolute."""
    return str(find_path(path, info).resolve())


def folder_of(info: ValidationInfo) -> Path:
    """Return the folder of the study file."""
    return Path((info.context or {}).get("folder", "."))


class NamedSpec(Spec):
    """Component by name with its parameters beside it: {name: knn, k: 10}."""

    kinds: ClassVar[tuple[str, ...]]
    """Registries in which the name is looked up."""
    name: str = Field(min_length=1)
    """Name of the component."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the component; in a study file they are written beside its name."""

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "params" in value:
            return value
        params = {key: item for key, item in value.items() if key not in cls.model_fields}
        cls._check_params(str(value.get("name")), params)
        return {key: item for key, item in value.items() if key not in params} | {"params": params}

    @classmethod
    def _check_params(cls, name: str, params: dict[str, Any]) -> None:
        """Raise for unknown parameters; by default, creating the component does."""

    @field_validator("params")
    @classmethod
    def _resolve_params(cls, params: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Resolve paths against the study's folder, and let the component refuse parameters not allowed in a study."""
        factories = find_factories(info.data.get("name", ""), map(registry_of, cls.kinds)) if params else []
        resolved = resolve_paths(params, factories, folder_of(info))
        for factory in factories:
            if isinstance(factory, type) and issubclass(factory, Named):
                factory.check_study(params)
                if info.context:  # a study file is read, and not a stored plan, whose paths are resolved
                    resolved = dict(factory.resolve_study(resolved, folder_of(info)))
        return resolved
