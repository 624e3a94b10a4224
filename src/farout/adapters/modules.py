"""Modules held by other libraries' detectors: find, preserve and share them; identities of such detectors."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from types import MethodType
from typing import TypeVar

import torch
from torch import nn

from farout.identity import Json, describe_held, digest, own_code_of, sources

T = TypeVar("T")


def modules_in(value: object) -> list[nn.Module]:
    """Return the modules held by an object's attributes, also in lists, nested detectors and bound methods."""
    match value:
        case nn.Module():
            return [value]
        case MethodType():
            return modules_in(value.__self__)
        case partial():
            return modules_in([value.func, *value.args, *value.keywords.values()])
        case Mapping():
            return modules_in(list(value.values()))
        case list() | tuple():
            return [module for item in value for module in modules_in(item)]
        case _ if callable(getattr(value, "predict", None)) and hasattr(value, "__dict__"):  # a detector in a detector
            return modules_in(vars(value))
    return []


def copy_sharing(thing: T, sharing: list[nn.Module]) -> T:
    """Return a deep copy that shares these modules with the original."""
    return copy.deepcopy(thing, {id(module): module for module in sharing})


@contextmanager
def preserve_modules(modules: list[nn.Module]) -> Iterator[None]:
    """Set modules to evaluation mode and enable gradients inside the block; restore modes and gradients afterwards."""
    parts = list(dict.fromkeys(part for module in modules for part in module.modules()))
    training = [part for part in parts if part.training]
    grads = [(p, p.grad) for module in modules for p in module.parameters()]
    for module in modules:
        module.eval()
    for parameter, _ in grads:
        parameter.grad = None
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        for part in parts:
            part.training = False
        for part in training:
            part.training = True
        for parameter, grad in grads:
            parameter.grad = grad


def describe_object(thing: object, library: str, distribution: str) -> Json | None:
    """Return an object's identity: its class in the other library, the library's version, and its attributes.

    A class from elsewhere is identified by its source; None if the identity cannot be determined.
    """
    code = code_of_class(type(thing), library, distribution)
    holds = describe_held(vars(thing))
    return None if code is None or holds is None else {"class": type(thing).__qualname__, "code": code, "holds": holds}


def code_of_class(cls: type, library: str, distribution: str) -> Json | None:
    """Return the digest of the class's source and the library's version; for classes from elsewhere, their own code."""
    if cls.__module__.split(".")[0] != library:
        return own_code_of(cls)
    try:
        source = digest(sources(cls))
        return [source, version(distribution)]
    except (OSError, TypeError):
        return None
    except PackageNotFoundError:  # used from a clone
        return source
