"""Hashes of JSON values, arrays and modules, and the source of the user's classes."""

from __future__ import annotations

import builtins
import hashlib
import inspect
import json
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from farout.files import blocks

Json = Any
"""JSON value: nested dicts with string keys, lists, strings, numbers, booleans, None."""


def canonical(value: Json) -> str:
    """Return the canonical JSON text of a value: sorted keys, no spaces, no NaN."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    except ValueError as error:
        raise ValueError(f"a parameter is NaN or infinite, expected finite numbers: {str(value)[:200]}") from error


def digest(value: Json) -> str:
    """Return the hash of a JSON value; 40 hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:40]


def digest_arrays(arrays: Iterable[tuple[str, np.ndarray]]) -> str:
    """Return the hash of named arrays: names, types, shapes and bytes, in this order."""
    total = hashlib.sha256()
    for name, array in arrays:
        array = np.asarray(array)
        total.update(_heading(name, array, array.shape))
        for part in blocks(array):
            total.update(_content(part))
    return total.hexdigest()[:40]


def digest_parts(columns: Iterable[tuple[str, int, Iterable[np.ndarray]]]) -> str:
    """Return the hash that `digest_arrays` gives for arrays of one dimension: names, lengths, and parts in order."""
    total = hashlib.sha256()
    for name, length, parts in columns:
        for number, part in enumerate(parts):
            if not number:
                total.update(_heading(name, part, (length,)))
            total.update(_content(part))
    return total.hexdigest()[:40]


def _heading(name: str, array: np.ndarray, shape: tuple[int, ...]) -> bytes:
    return f"{name}|{array.dtype.str}|{shape}|".encode()


def _content(array: np.ndarray) -> memoryview:
    return np.asarray(array, order="C").reshape(-1).view(np.uint8).data


def digest_module(module: torch.nn.Module) -> str:
    """Return the hash of a module: submodules with their settings, source of user classes, weights and buffers."""
    parts = [
        [name, type(part).__qualname__, part.extra_repr(), _settings(part)] for name, part in module.named_modules()
    ]
    code = sorted({source_of(type(part)) or "" for part in module.modules()})
    tensors = {**module.state_dict(), **dict(module.named_buffers())}  # state_dict omits non-persistent buffers
    arrays = ((key, bytes_of(tensor)) for key, tensor in sorted(tensors.items()))
    return digest([parts, code, digest_arrays(arrays)])


def _settings(part: torch.nn.Module) -> dict[str, Json]:
    """Return the plain attributes of a user's module, which may change what it computes."""
    if not is_users(type(part)):
        return {}
    public = ((key, value) for key, value in vars(part).items() if not key.startswith("_") and key != "training")
    return {key: repr(value) for key, value in public if isinstance(value, bool | int | float | str | tuple | list)}


def bytes_of(tensor: object) -> np.ndarray:
    """Return a tensor's values as an array. Raise TypeError for a sparse tensor or another object."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
        raise TypeError(f"{type(tensor).__qualname__} {getattr(tensor, 'layout', '')} has no plain description")
    tensor = tensor.detach().cpu().contiguous()
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def source_of(cls: type) -> str | None:
    """Return the hash of the source of a user's class and its bases; None for farout's classes or without source."""
    try:
        texts = sources(cls)
    except (OSError, TypeError):
        return None
    return digest(texts) if texts else None


def sources(cls: type) -> list[str]:
    """Return the source of `cls` and its bases, as far as they are the user's. Raise if there is no source file."""
    return [_source(part) for part in cls.__mro__ if is_users(part)]


@lru_cache(maxsize=1024)
def _source(cls: type) -> str:
    return inspect.getsource(cls)


def is_users(thing: Any) -> bool:
    """Return True if a class or function is not part of Python, torch or farout."""
    top = (thing.__module__ or "").split(".")[0]
    if top == "builtins":  # also the module of a class made by exec
        return getattr(builtins, thing.__name__, None) is not thing
    return top not in sys.stdlib_module_names and top not in {"torch", "torchvision", "timm", "farout"}
