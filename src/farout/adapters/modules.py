"""What adapters of other libraries' detectors share: modules found, left as they were, and copied around."""

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
    """The modules that an object's attributes hold, also in lists, detectors and as owners of methods."""
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


def copied(thing: T, sharing: list[nn.Module]) -> T:
    """A deep copy that shares these modules with the original."""
    return copy.deepcopy(thing, {id(module): module for module in sharing})


@contextmanager
def left_alone(modules: list[nn.Module]) -> Iterator[None]:
    """While this lasts, modules evaluate and gradients are on; modes and parameters' gradients are then as before."""
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


def told(thing: object, library: str, distribution: str) -> Json | None:
    """What an object of another library is: its class there, the library's version, what the object holds.

    A class from elsewhere is told by its source; None where no honest answer can be had.
    """
    code = code_of_class(type(thing), library, distribution)
    holds = describe_held(vars(thing))
    return None if code is None or holds is None else {"class": type(thing).__qualname__, "code": code, "holds": holds}


def code_of_class(cls: type, library: str, distribution: str) -> Json | None:
    """The source of a class of this library and the library's version; of a class from elsewhere, its own code."""
    if cls.__module__.split(".")[0] != library:
        return own_code_of(cls)
    try:
        source = digest(sources(cls))
        return [source, version(distribution)]
    except (OSError, TypeError):
        return None
    except PackageNotFoundError:  # used from a clone
        return source
