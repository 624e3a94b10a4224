"""JSON descriptions of the values of attributes and variables: plain data unchanged, arrays and modules by hash."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
import torch

from farout.identity.hashes import Json, bytes_of, canonical, digest, digest_arrays, digest_module, sources

P = ParamSpec("P")
T = TypeVar("T")
NO_DESCRIPTION = (OSError, TypeError, ValueError, RecursionError)
"""Errors of a failed description: no source file, a value of an unsupported type, a recursive structure."""


def none_if_failed(function: Callable[P, T]) -> Callable[P, T | None]:
    """Return the function with a result of None if a description fails (decorator)."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except NO_DESCRIPTION:
            return None

    return wrapper


def plain(value: object) -> Json:
    """Return a JSON value that is equal for equal values only. Raise TypeError for unsupported types.

    Supported: data (numbers, texts, lists, mappings, sets), arrays and tensors, modules, dataclasses, and objects
    with a `fingerprint` or `digest`.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        case torch.nn.Module():
            return {"module": _module_digest(value)}
        case torch.dtype() | torch.device():
            return str(value)
        case torch.Tensor():
            return {"array": digest_arrays([("", bytes_of(value))])}
        case np.ndarray() if not value.dtype.hasobject:
            return {"array": digest_arrays([("", value)])}
        case np.generic() if not isinstance(value.item(), np.generic):
            return plain(value.item())
        case Mapping():
            if all(isinstance(key, str) for key in value):
                return {key: plain(item) for key, item in value.items()}
            return {"pairs": sorted(canonical([plain(key), plain(item)]) for key, item in value.items())}
        case list() | tuple():
            return [plain(item) for item in value]
        case set() | frozenset():
            return {"set": sorted(canonical(plain(item)) for item in value)}
    return _object(value)


def _module_digest(module: torch.nn.Module) -> str:
    for part in module.modules():
        sources(type(part))  # raises for a class without source, whose digest would not be unique
    own = getattr(module, "digest", None)
    return own if isinstance(own, str) else digest_module(module)


def _object(value: object) -> Json:
    """Return a dataclass as its fields and source, any other object as its fingerprint."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {type(value).__qualname__: fields, "source": digest(sources(type(value)))}
    fingerprint = getattr(value, "fingerprint", None) or getattr(value, "digest", None)
    if isinstance(fingerprint, str):
        return {type(value).__qualname__: fingerprint}
    raise TypeError(f"{type(value).__qualname__} has no plain description")


def same(a: object, b: object) -> bool:
    """Return True if two values have the same description; False if one has none."""
    try:
        return canonical(plain(a)) == canonical(plain(b))
    except NO_DESCRIPTION:
        return False
