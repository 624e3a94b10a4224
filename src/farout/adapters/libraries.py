"""Estimators of scikit-learn and PyOD as plain data: a dotted name and settings, and back."""

from __future__ import annotations

import importlib
import inspect
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np

from farout.identity import Json, canonical
from farout.networks.base import seeded

REFUSED = {
    "memory": "caches are not allowed",  # a folder of pickles, which the library would load
    "encoder": "the network's features are used",  # PyOD would download a model, or call a server
}
"""Settings that would read anything but the features, and why they are refused."""
LIBRARIES = {"sklearn": ("scikit-learn", "sklearn."), "pyod": ("pyod", "pyod.models.")}
"""Distribution and module prefix of each library: names may come from a file, so no other modules are imported."""


def estimator_class(name: str) -> type:
    """Return the class of this dotted name, from these libraries only: a study file must not run other code."""
    module, _, class_name = name.rpartition(".")
    top = name.split(".")[0]
    if top not in LIBRARIES or not name.startswith(LIBRARIES[top][1]):
        raise ValueError(
            f"an estimator by name comes from sklearn or pyod.models (sklearn.ensemble.IsolationForest), got {name!r}; "
            "your own estimator can be passed in Python, as an object"
        )
    try:
        importlib.import_module(top)
    except ModuleNotFoundError as error:
        raise ImportError(f'{name} needs {LIBRARIES[top][0]}: pip install "farout[{top}]"') from error
    try:
        cls = getattr(importlib.import_module(module), class_name, None)
    except ModuleNotFoundError as error:
        raise ValueError(f"{name} does not exist: {error}") from error
    if not isinstance(cls, type) or not cls.__module__.startswith(LIBRARIES[top][1]) or not hasattr(cls, "get_params"):
        raise ValueError(f"{name} is not an estimator of {LIBRARIES[top][0]}")
    return cls


def name_of(cls: type) -> str:
    """Return the shortest dotted name, through a public module if that exports the class."""
    parts = cls.__module__.split(".")
    public = ".".join(parts[: next((i for i, part in enumerate(parts) if part.startswith("_")), len(parts))])
    shown = public and getattr(importlib.import_module(public), cls.__name__, None) is cls
    return f"{public if shown else cls.__module__}.{cls.__qualname__}"


def is_library(cls: type) -> bool:
    """Return True if `estimator_class` finds this class by its name."""
    return cls.__module__.startswith(tuple(where for _, where in LIBRARIES.values()))


def is_pyod(thing: object) -> bool:
    """Return True for a detector of PyOD, or a pipeline that ends in one."""
    steps = getattr(thing, "steps", None)
    if isinstance(steps, list) and steps and isinstance(steps[-1], list | tuple):
        return is_pyod(steps[-1][-1])
    return any(part.__module__ == "pyod.models.base" for part in type(thing).__mro__)


def versions_of(name: str, settings: Json) -> str:
    """Return the libraries of an estimator and of those in its settings, with their versions."""
    text = canonical([name, settings])
    used = [dist for dist, where in LIBRARIES.values() if dist == "scikit-learn" or f'"{where}' in text]
    return ", ".join(f"{dist} {version(dist)}" for dist in used)  # PyOD depends on scikit-learn


def settings_of(estimator: Any) -> dict[str, Json]:
    """Return the settings of an estimator that differ from their defaults, as JSON."""
    defaults = {name: p.default for name, p in inspect.signature(type(estimator).__init__).parameters.items()}
    params = estimator.get_params(deep=False)
    return {key: to_json(value, key) for key, value in params.items() if not _same(value, defaults.get(key))}


def _same(value: object, default: object) -> bool:
    return value is default or (
        type(value) is type(default) and isinstance(value, int | float | str) and value == default
    )


def to_json(value: object, where: str) -> Json:
    """Return a setting as JSON: estimators as {of, settings}, tuples as {tuple: [...]}; raise for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None | bool() | int() | float() | str() if value == value and value not in (np.inf, -np.inf):
            return value
        case list():
            return [to_json(item, where) for item in value]
        case tuple():
            return {"tuple": [to_json(item, where) for item in value]}
        case Mapping() if all(isinstance(key, str) for key in value):
            return {key: to_json(item, where) for key, item in value.items()}
    if is_library(type(value)) and hasattr(value, "get_params"):
        return {"of": name_of(type(value)), "settings": settings_of(value)}
    hint = "; give random_state a whole number" if where.endswith("random_state") else ""
    raise TypeError(
        f"setting {where!r} must be numbers, text, lists or estimators, so that it can be stored, "
        f"got {type(value).__name__} {value!r:.60}{hint}"
    )


def build(cls: type, settings: Mapping[str, Json]) -> Any:
    """Build an estimator with these settings."""
    if not isinstance(settings, Mapping):
        raise TypeError(f"settings of {cls.__name__} must be a mapping, got {type(settings).__name__}")
    parameters = inspect.signature(cls).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for key, value in settings.items():
        if key not in parameters and not takes_any:
            raise ValueError(f"{cls.__name__} has no setting {key!r}; it has {', '.join(parameters)}")
        if key in REFUSED and value is not None:
            raise ValueError(f"{cls.__name__}: {key} must be left out; {REFUSED[key]}")
    return cls(**{key: _from_json(value) for key, value in settings.items()})


def _from_json(value: Json) -> Any:
    match value:
        case {"tuple": [*items]} if len(value) == 1:
            return tuple(map(_from_json, items))
        case {"of": str() as name, **rest} if rest.keys() <= {"settings"}:
            settings: Any = rest.get("settings") or {}
            return build(estimator_class(name), settings)
        case dict():
            return {key: _from_json(item) for key, item in value.items()}
        case list():
            return [_from_json(item) for item in value]
    return value


def fix_randomness(estimator: Any, seed: int) -> None:
    """Set every unset random_state to this seed, also those of nested estimators."""
    params = estimator.get_params(deep=True)
    free = [key for key, value in params.items() if key.split("__")[-1] == "random_state" and value is None]
    estimator.set_params(**dict.fromkeys(free, seed))


@contextmanager
def seed_global_rngs(seed: int) -> Iterator[None]:
    """Seed the global generators inside the block; restore their state afterwards."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        np.random.seed(seed % 2**32)  # noqa: NPY002
        random.seed(seed)
        with seeded(seed):
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
