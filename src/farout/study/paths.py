"""Paths in a study file: relative ones are resolved against the folder of the file.

A component declares which of its parameters are paths by their type: `Path`, `str | Path | None`, `list[Path]`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from farout.registry import REGISTRIES, Registry, UnknownName

_CODE = re.compile(r"(.+\.py)(:\w+)")
"""Reference to an object in a user's Python file: "file.py:name"."""


def resolve_paths(params: Mapping[str, Any], factories: list[Callable[..., Any]], folder: Path) -> dict[str, Any]:
    """Return the parameters of a component with absolute paths, also in the components nested inside them."""
    paths = set().union(*map(path_parameters, factories))
    return {
        key: _make_absolute(value, folder) if key in paths else _resolve_nested(value, folder)
        for key, value in params.items()
    }


def path_parameters(factory: Callable[..., Any]) -> set[str]:
    """Return the names of the parameters of a class or function that are annotated as paths."""
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters
    except Exception:  # an annotation uses a name that is imported under TYPE_CHECKING only
        parameters = inspect.signature(factory).parameters
    return {name for name, parameter in parameters.items() if _is_path(parameter.annotation)}


def _is_path(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return bool(re.search(r"\bPath\b", annotation))
    return annotation is Path or any(map(_is_path, get_args(annotation)))


def _make_absolute(value: Any, folder: Path) -> Any:
    if isinstance(value, list | tuple):
        return [_make_absolute(item, folder) for item in value]
    if not isinstance(value, str):
        return value
    code = _CODE.fullmatch(value)
    file, name = code.groups() if code else (value, "")
    return f"{(folder / Path(file).expanduser()).resolve()}{name}"


def _resolve_nested(value: Any, folder: Path) -> Any:
    """Resolve the paths of components nested inside parameters: {name: frost, frost_dir: photographs}."""
    if isinstance(value, list | tuple):
        return [_resolve_nested(item, folder) for item in value]
    if not isinstance(value, Mapping):
        return value
    name = value.get("name")
    factories = find_factories(name, list(REGISTRIES.values())) if isinstance(name, str) else []
    return resolve_paths(value, factories, folder)


def find_factories(name: str, registries: Iterable[Registry[Any]]) -> list[Callable[..., Any]]:
    """Return the classes and functions registered under a name in any of these registries."""
    factories = []
    for registry in registries:
        try:
            factories.append(registry[name])
        except UnknownName:
            continue
    return factories
