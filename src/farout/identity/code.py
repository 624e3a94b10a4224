"""Descriptions of code: the source of a class or function, and the outside values and code that it reads.

A score may depend on a constant at the top of the user's file, on a helper function, or on a library's version. So the
description of a class holds a hash of its source and, for each method, everything that the method reads: global and
closure variables by their value, the user's own functions and classes by their source (and recursively what these
read), the user's modules by the content of their files, and libraries by their version.
"""

from __future__ import annotations

import dis
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np

from farout.identity.hashes import Json, canonical, digest, is_users, sources
from farout.identity.values import none_if_failed, plain

KNOWN = {*sys.stdlib_module_names, "torch", "torchvision", "timm", "numpy", "farout"}
"""Modules whose version is not part of a description."""
_LOADS = {
    "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS",
}  # fmt: skip
"""Instructions that read a global or closure variable."""
_NOT_DATA = (FunctionType, staticmethod, classmethod, property, cached_property, type, MemberDescriptorType)


@none_if_failed
def code_of(cls: type) -> Json:
    """Return the description of a user's class: source, attributes, values that methods read; None if impossible."""
    parts = [part for part in cls.__mro__ if is_users(part)]
    return {"source": digest(sources(cls)), "holds": _attributes(parts), "reads": _Reads(_functions(parts)).sorted()}


@none_if_failed
def own_code_of(cls: type) -> Json:
    """Return the same as `code_of`, but base classes of installed libraries only by their name and version."""
    own = [part for part in cls.__mro__ if is_own(part)]
    theirs = [part for part in cls.__mro__ if is_users(part) and part not in own]
    return {
        "source": digest([inspect.getsource(part) for part in own]),
        "holds": _attributes(own),
        "reads": _Reads(_functions(own)).sorted(),
        "from": [[part.__module__, part.__qualname__, _version(part.__module__)] for part in theirs],
    }


def code_of_function(function: FunctionType) -> Json:
    """Return every layer of a decorated function by its source; layers of `KNOWN` modules by their name."""
    layers, reads = [], _Reads()
    layer: Any = function
    while isinstance(layer, FunctionType):
        module = layer.__globals__.get("__name__", "")
        if module.split(".")[0] in KNOWN:
            layers.append(f"{module}.{layer.__qualname__}")
        else:
            layers.append(digest([inspect.getsource(layer.__code__), *_lambda_code(layer.__code__)]))
            reads.add(layer)
        layer = getattr(layer, "__wrapped__", None)
    return {"name": function.__qualname__, "source": layers, "reads": reads.sorted()}


def _lambda_code(code: CodeType) -> list[str]:
    """Return the byte code of a lambda, since `getsource` returns the whole line that contains it."""
    if code.co_name != "<lambda>":
        return []
    inner = [part for const in code.co_consts if isinstance(const, CodeType) for part in _lambda_code(const)]
    consts = [repr(const) for const in code.co_consts if not isinstance(const, CodeType)]
    return [code.co_code.hex(), *consts, *code.co_names, *inner]


def _attributes(parts: list[type]) -> Json:
    """Return the public class attributes that are data; derived classes override their bases."""
    attributes = ((key, value) for part in reversed(parts) for key, value in vars(part).items())
    return plain(
        {key: value for key, value in attributes if not key.startswith("_") and not isinstance(value, _NOT_DATA)}
    )


def _functions(parts: Iterable[type]) -> Iterator[FunctionType]:
    """Yield the functions that these classes define, including those of properties and class methods."""
    for member in (member for part in parts for member in vars(part).values()):
        for name in ("__func__", "fget", "fset", "func"):
            member = getattr(member, name, None) or member
        if isinstance(member, FunctionType) and not _is_generated(member):
            yield inspect.unwrap(member)


def _is_generated(function: FunctionType) -> bool:
    """Return True for a function that `dataclass` has put into a class: generated code, or one of its module (3.13)."""
    generated = function.__code__.co_filename == "<string>" and function.__name__.startswith("__")
    return generated or function.__module__ == "dataclasses"


class _Reads:
    """Outside values that functions read: by function and variable, a value, a hash of source or a version."""

    def __init__(self, functions: Iterable[FunctionType] = ()) -> None:
        self._found: dict[tuple[FunctionType, str], Json] = {}
        for function in functions:
            self.add(function)

    def sorted(self) -> list[str]:
        """Return one text per variable, sorted."""
        found = self._found.items()
        return sorted(canonical([f"{function.__qualname__}:{name}", value]) for (function, name), value in found)

    def add(self, function: FunctionType) -> None:
        """Add the variables that a function reads, and those that the user's functions called by it read."""
        defaults = plain([function.__defaults__, function.__kwdefaults__])
        if defaults != [None, None]:
            self._found[function, "="] = defaults
        for name in _imported(function.__code__):
            self._found[function, f"import {name}"] = _version(name)
        closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        outside = {**function.__globals__, **{name: cell.cell_contents for name, cell in closure}}
        for name in _variables(function.__code__):
            if name in outside and (function, name) not in self._found:
                self._add_value((function, name), outside[name])

    def _add_value(self, key: tuple[FunctionType, str], value: object) -> None:
        if isinstance(value, type | FunctionType):
            self._add_code(key, value)
        elif isinstance(value, ModuleType):
            if description := _describe_module(value):
                self._found[key] = description
        elif not isinstance(value, BuiltinFunctionType | np.ufunc):
            self._found[key] = plain(value)

    def _add_code(self, key: tuple[FunctionType, str], code: type | FunctionType) -> None:
        if is_own(code):
            self._found[key] = digest(sources(code) if isinstance(code, type) else inspect.getsource(code))
            parts = [part for part in code.__mro__ if is_users(part)] if isinstance(code, type) else []
            for inner in _functions(parts) if isinstance(code, type) else [inspect.unwrap(code)]:
                self.add(inner)
        elif is_users(code) and (version := _version(code.__module__)):
            self._found[key] = version


def _variables(code: CodeType) -> set[str]:
    """Return the names of the global and closure variables that code reads, including its inner functions."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in _LOADS}
    return names.union(*(_variables(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _imported(code: CodeType) -> set[str]:
    """Return the libraries that code imports inside functions. Raise TypeError for a user's file, which may change."""
    names = {step.argval.split(".")[0] for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME"} - KNOWN
    for name in names:
        spec = name and importlib.util.find_spec(name)
        if not spec or not _is_installed(spec.origin):
            raise TypeError(f"{name} is imported inside a function; import it at the top of the file")
        with suppress(ImportError):
            importlib.import_module(name)  # its version must be the same before and after the first call
    return names.union(*(_imported(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _describe_module(module: ModuleType) -> str:
    """Return a hash of a user's module and of the user's modules that it imports; for a library, its version."""
    found: dict[str, str] = {}
    _add_files(module, found)
    return digest(sorted(found.values())) if found else _version(module.__name__)


def _add_files(module: ModuleType, found: dict[str, str]) -> None:
    file = getattr(module, "__file__", None)
    if not file or file in found or module.__name__.split(".")[0] in KNOWN or _is_installed(file):
        return
    found[file] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    for value in list(vars(module).values()):
        other = sys.modules.get(value.__module__) if isinstance(value, type | FunctionType) else value
        if isinstance(other, ModuleType):
            _add_files(other, found)


def _version(module: str) -> str:
    """Return the version of the library that a module belongs to; empty if it has none or is one of `KNOWN`."""
    top = module.split(".")[0]
    return "" if top in KNOWN else str(getattr(sys.modules.get(top), "__version__", ""))


def is_own(thing: type | FunctionType) -> bool:
    """Return True if a class or function is defined in a file of the user's, not in an installed library."""
    return is_users(thing) and not _is_installed(getattr(sys.modules.get(thing.__module__), "__file__", None))


def _is_installed(file: str | None) -> bool:
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
