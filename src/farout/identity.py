"""Identity: hashes of what a thing is, never of where it lies or when it was made."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

Json = Any
"""What `json.dumps` takes: nested dicts with string keys, lists, strings, numbers, booleans, None."""


def canonical(value: Json) -> str:
    """One spelling for one value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def digest(value: Json) -> str:
    """Hash of a JSON value; 40 hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:40]


def digest_arrays(arrays: Iterable[tuple[str, np.ndarray]]) -> str:
    """Hash of named arrays: names, types, shapes and bytes, in the order given."""
    total = hashlib.sha256()
    for name, array in arrays:
        array = np.ascontiguousarray(array)
        total.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()[:40]


def digest_module(module: torch.nn.Module) -> str:
    """Hash of a module: the classes it is made of, and every weight and buffer."""
    classes = [f"{name}:{type(part).__qualname__}" for name, part in module.named_modules()]
    tensors = ((key, _bytes_of(tensor)) for key, tensor in sorted(module.state_dict().items()))
    return digest([classes, digest_arrays(tensors)])


def _bytes_of(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu().contiguous()
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def describe(thing: object) -> Json | None:
    """What a user's object is: its class's source, its parameters and the digests of the modules it holds.

    A class may say so itself with `identity()` or an `identity` attribute. None where no honest answer can be
    had (source out of reach, or an attribute that is neither data, array nor module): then nothing computed
    with it may be reused.
    """
    declared = getattr(thing, "identity", None)
    if declared is not None:
        return _plain(declared() if callable(declared) else declared)
    try:
        sources = [inspect.getsource(part) for part in type(thing).__mro__ if _is_users(part)]
        return {"class": type(thing).__qualname__, "source": digest(sources), "holds": _plain(vars(thing))}
    except (OSError, TypeError):
        return None


def _is_users(cls: type) -> bool:
    return cls.__module__.split(".")[0] not in {"builtins", "abc", "torch", "farout", "typing"}


def _plain(value: object) -> Json:
    """A JSON value that stands for `value`; TypeError where there is none."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return repr(value)
        case torch.nn.Module():
            return {"module": digest_module(value)}
        case torch.Tensor():
            return {"array": digest_arrays([("", _bytes_of(value))])}
        case np.ndarray() if value.dtype != object:
            return {"array": digest_arrays([("", value)])}
        case np.generic():
            return _plain(value.item())
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case set() | frozenset():
            return sorted(canonical(_plain(item)) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {type(value).__qualname__: {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}}
    fingerprint = getattr(value, "fingerprint", None) or getattr(value, "digest", None)
    if isinstance(fingerprint, str):
        return {type(value).__qualname__: fingerprint}
    raise TypeError(f"{type(value).__qualname__} has no plain description")
