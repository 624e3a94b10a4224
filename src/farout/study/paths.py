"""Paths among the parameters of a study: relative ones start from the folder of the study's file.

A component says itself which of its parameters are paths, by their type: `Path`, `str | Path | None`, `list[Path]`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from farout.registry import REGISTRIES, Registry, UnknownName

_CODE = re.compile(r"(.+\.py)(:\w+)")
"""An object in a file of the user's: "file.py:name"."""


def resolved(params: Mapping[str, Any], makers: list[Callable[..., Any]], folder: Path) -> dict[str, Any]:
    """Return parameters of a component with its paths made absolute, and those of components named inside them."""
    paths = set().union(*map(path_parameters, makers))
    return {key: _rooted(value, folder) if key in paths else _inner(value, folder) for key, value in params.items()}


def path_parameters(maker: Callable[..., Any]) -> set[str]:
    """Return the parameters of a class or function that are annotated as paths."""
    try:
        known = inspect.signature(maker, eval_str=True).parameters
    except Exception:  # a name that is imported for type checkers alone
        known = inspect.signature(maker).parameters
    return {name for name, parameter in known.items() if _is_path(parameter.annotation)}


def _is_path(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return bool(re.search(r"\bPath\b", annotation))
    return annotation is Path or any(map(_is_path, get_args(annotation)))


def _rooted(value: Any, folder: Path) -> Any:
    if isinstance(value, list | tuple):
        return [_rooted(item, folder) for item in value]
    if not isinstance(value, str):
        return value
    code = _CODE.fullmatch(value)
    file, name = code.groups() if code else (value, "")
    return f"{(folder / Path(file).expanduser()).resolve()}{name}"


def _inner(value: Any, folder: Path) -> Any:
    """Resolve the paths of components that stand inside parameters: {name: frost, frost_dir: photographs}."""
    if isinstance(value, list | tuple):
        return [_inner(item, folder) for item in value]
    if not isinstance(value, Mapping):
        return value
    name = value.get("name")
    return resolved(value, makers_of(name, list(REGISTRIES.values())) if isinstance(name, str) else [], folder)


def makers_of(name: str, registries: Iterable[Registry[Any]]) -> list[Callable[..., Any]]:
    """Return the classes and functions that these registries know by a name."""
    found = []
    for registry in registries:
        try:
            found.append(registry[name])
        except UnknownName:
            continue
    return found
