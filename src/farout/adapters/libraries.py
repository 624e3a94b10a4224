"""scikit-learn's and PyOD's estimators as plain data: a dotted name and settings, and back."""

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
    "memory": "nothing is read from or written to a cache",  # a folder of pickles, which the library would load
    "encoder": "the network's features are what is read",  # PyOD would fetch a model, or ask a server
}
"""Settings that would reach beyond the features, and why they must be left out."""
LIBRARIES = {"sklearn": ("scikit-learn", "sklearn."), "pyod": ("pyod", "pyod.models.")}
"""Module -> the distribution it comes in, and where its estimators are: names may come from a file, so no others."""


def estimator_class(name: str) -> type:
    """The class of this dotted name; of these libraries only, so that a study file runs nobody else's code."""
    module, _, called = name.rpartition(".")
    top = name.split(".")[0]
    if top not in LIBRARIES or not name.startswith(LIBRARIES[top][1]):
        raise ValueError(
            f"an estimator by name comes from sklearn or pyod.models (sklearn.ensemble.IsolationForest), got {name!r}; "
            "one of your own can be given in Python, as an object"
        )
    try:
        importlib.import_module(top)
    except ModuleNotFoundError as error:
        raise ImportError(f'{name} needs {LIBRARIES[top][0]}: pip install "farout[{top}]"') from error
    try:
        cls = getattr(importlib.import_module(module), called, None)
    except ModuleNotFoundError as error:
        raise ValueError(f"there is no {name}: {error}") from error
    if not isinstance(cls, type) or not cls.__module__.startswith(LIBRARIES[top][1]) or not hasattr(cls, "get_params"):
        raise ValueError(f"{name} is no estimator of {LIBRARIES[top][0]}")
    return cls


def name_of(cls: type) -> str:
    """The shortest dotted name: without the private modules that a public one shows the class of."""
    parts = cls.__module__.split(".")
    public = ".".join(parts[: next((i for i, part in enumerate(parts) if part.startswith("_")), len(parts))])
    shown = public and getattr(importlib.import_module(public), cls.__name__, None) is cls
    return f"{public if shown else cls.__module__}.{cls.__qualname__}"


def is_library(cls: type) -> bool:
    """Is this a class that `estimator_class` finds by its name?"""
    return cls.__module__.startswith(tuple(where for _, where in LIBRARIES.values()))


def is_pyods(thing: object) -> bool:
    """Is this a detector of PyOD, or a pipeline that ends in one?"""
    steps = getattr(thing, "steps", None)
    if isinstance(steps, list) and steps and isinstance(steps[-1], list | tuple):
        return is_pyods(steps[-1][-1])
    return any(part.__module__ == "pyod.models.base" for part in type(thing).__mro__)


def versions_of(name: str, settings: Json) -> str:
    """The libraries that an estimator and those among its settings come from, with their versions."""
    text = canonical([name, settings])
    used = [dist for dist, where in LIBRARIES.values() if dist == "scikit-learn" or f'"{where}' in text]
    return ", ".join(f"{dist} {version(dist)}" for dist in used)  # PyOD's own stand on scikit-learn's


def settings_of(estimator: Any) -> dict[str, Json]:
    """The settings of an estimator that are not at their defaults, as data."""
    defaults = {name: p.default for name, p in inspect.signature(type(estimator).__init__).parameters.items()}
    params = estimator.get_params(deep=False)
    return {key: plain(value, key) for key, value in params.items() if not _same(value, defaults.get(key))}


def _same(value: object, default: object) -> bool:
    return value is default or (
        type(value) is type(default) and isinstance(value, int | float | str) and value == default
    )


def plain(value: object, where: str) -> Json:
    """A setting as JSON: estimators as {of, settings}, tuples as {tuple: [...]}; an error for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None | bool() | int() | float() | str() if value == value and value not in (np.inf, -np.inf):
            return value
        case list():
            return [plain(item, where) for item in value]
        case tuple():
            return {"tuple": [plain(item, where) for item in value]}
        case Mapping() if all(isinstance(key, str) for key in value):
            return {key: plain(item, where) for key, item in value.items()}
    if is_library(type(value)) and hasattr(value, "get_params"):
        return {"of": name_of(type(value)), "settings": settings_of(value)}
    hint = "; give random_state a whole number" if where.endswith("random_state") else ""
    raise TypeError(
        f"setting {where!r} must be numbers, text, lists or estimators, so that it can be stored and told again, "
        f"got {type(value).__name__} {value!r:.60}{hint}"
    )


def built(cls: type, settings: Mapping[str, Json]) -> Any:
    """A new estimator with these settings."""
    if not isinstance(settings, Mapping):
        raise TypeError(f"settings of {cls.__name__} must be a mapping, got {type(settings).__name__}")
    known = inspect.signature(cls).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    for key, value in settings.items():
        if key not in known and not takes_any:
            raise ValueError(f"{cls.__name__} has no setting {key!r}; it has {', '.join(known)}")
        if key in REFUSED and value is not None:
            raise ValueError(f"{cls.__name__}: {key} must be left out; {REFUSED[key]}")
    return cls(**{key: _unpacked(value) for key, value in settings.items()})


def _unpacked(value: Json) -> Any:
    match value:
        case {"tuple": [*items]} if len(value) == 1:
            return tuple(map(_unpacked, items))
        case {"of": str() as name, **rest} if rest.keys() <= {"settings"}:
            settings: Any = rest.get("settings") or {}
            return built(estimator_class(name), settings)
        case dict():
            return {key: _unpacked(item) for key, item in value.items()}
        case list():
            return [_unpacked(item) for item in value]
    return value


def fix_randomness(estimator: Any, seed: int) -> None:
    """Give every random_state that is not set this seed, also those of estimators inside."""
    params = estimator.get_params(deep=True)
    free = [key for key, value in params.items() if key.split("__")[-1] == "random_state" and value is None]
    estimator.set_params(**dict.fromkeys(free, seed))


@contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """While this lasts, the global generators start from `seed`; afterwards they are as they were before."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        np.random.seed(seed % 2**32)  # noqa: NPY002
        random.seed(seed)
        with seeded(seed):
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
