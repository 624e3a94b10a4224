"""What a user's object is, told from its class's source, what it holds and what it reads from outside."""

from __future__ import annotations

import dataclasses
import dis
import hashlib
import importlib.util
import inspect
import math
import sys
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from farout.identity import Json, bytes_of, canonical, digest, digest_arrays, digest_module, is_users, sources

KNOWN = {*sys.stdlib_module_names, "torch", "torchvision", "timm", "numpy", "farout"}
"""Modules whose version is no part of a detector's identity."""
_TOKEN = "_farout_token"
"""The attribute that tells an object from all others where nothing else can."""


def describe(thing: object) -> Json | None:
    """What a user's object is: its class's source, its parameters, the digests of the modules it holds or reads.

    A class may say so itself with `identity()` or an `identity` attribute. None where no honest answer can be
    had (source out of reach, or an attribute that is neither data, array nor module): then nothing computed
    with it may be reused.
    """
    declared = getattr(thing, "identity", None)
    if declared is not None:
        return _plain(declared() if callable(declared) else declared)
    try:
        code = code_of(type(thing))
        return None if code is None else {"class": type(thing).__qualname__, "code": code, "holds": _plain(vars(thing))}
    except (OSError, TypeError, ValueError, RecursionError):
        return None


def same(a: object, b: object) -> bool:
    """Are these plainly the same? False where that cannot be told."""
    try:
        return canonical(_plain(a)) == canonical(_plain(b))
    except (OSError, TypeError, ValueError, RecursionError):
        return False


def code_of(cls: type) -> Json | None:
    """The source of a user's class, its attributes, and what its methods read from outside; None if out of reach."""
    try:
        found: dict[tuple[FunctionType, str], Json] = {}
        for function in _methods(cls):
            _read(function, found)
        reads = _sorted_reads(found)
        return {"source": digest(sources(cls)), "holds": _plain(_class_attributes(cls)), "reads": reads}
    except (OSError, TypeError, ValueError, RecursionError):
        return None


def own_code_of(cls: type) -> Json | None:
    """As `code_of`, but classes of installed libraries that it derives from are told by name and version."""
    own = [part for part in cls.__mro__ if _is_own(part)]
    theirs = [part for part in cls.__mro__ if is_users(part) and part not in own]
    try:
        found: dict[tuple[FunctionType, str], Json] = {}
        for function in _functions(member for part in own for member in vars(part).values()):
            _read(function, found)
        return {
            "source": digest([inspect.getsource(part) for part in own]),
            "holds": _plain({key: value for part in reversed(own) for key, value in _held(part)}),
            "reads": _sorted_reads(found),
            "from": [[part.__module__, part.__qualname__, _version(part.__module__)] for part in theirs],
        }
    except (OSError, TypeError, ValueError, RecursionError):
        return None


def describe_function(function: object) -> Json | None:
    """What a function, a bound method or a partial is: source, what it reads from outside, what it is bound to.

    None where no honest answer can be had.
    """
    try:
        match function:
            case partial():
                inner = describe_function(function.func)
                return inner and {"partial": inner, "given": _plain([function.args, dict(function.keywords)])}
            case MethodType():
                inner = describe_function(function.__func__)
                owner = describe_held({"": function.__self__})
                return inner and owner and {"method": inner, "of": owner}
            case FunctionType():
                return _code_of_function(function)
    except (OSError, TypeError, ValueError, RecursionError):
        pass
    return None


def describe_maker(maker: Any) -> Json:
    """Describe a class or function of the user's that makes things; one that cannot be described equals no other."""
    code = code_of(maker) if isinstance(maker, type) else describe_function(maker)
    return unknown_code(maker) if code is None else code


def describe_held(attributes: Mapping[str, object]) -> Json | None:
    """What an object holds, where modules, arrays, data, functions and objects of the user's are told; else None."""
    held = {}
    for key, value in attributes.items():
        try:
            held[key] = _plain(value)
        except (OSError, TypeError, ValueError, RecursionError):
            if isinstance(value, FunctionType | MethodType | partial):
                held[key] = describe_function(value)
            else:  # a library's object may have a state that Python does not show
                held[key] = describe(value) if _is_own(type(value)) else None
            if held[key] is None:
                return None
    return held


def _code_of_function(function: FunctionType) -> Json:
    """Every layer of a decorated function; one of ours, Python's or torch's by its name."""
    layers, found = [], dict[tuple[FunctionType, str], Json]()
    layer: object = function
    while isinstance(layer, FunctionType):
        if layer.__globals__.get("__name__", "").split(".")[0] in KNOWN:
            layers.append(f"{layer.__globals__['__name__']}.{layer.__qualname__}")
        else:
            layers.append(digest([inspect.getsource(layer.__code__), *_nameless(layer.__code__)]))
            _read(layer, found)
        layer = getattr(layer, "__wrapped__", None)
    return {"name": function.__qualname__, "source": layers, "reads": _sorted_reads(found)}


def _nameless(code: CodeType) -> list[str]:
    """What tells a lambda from others in its line, since a source is whole lines."""
    if code.co_name != "<lambda>":
        return []
    inner = [part for const in code.co_consts if isinstance(const, CodeType) for part in _nameless(const)]
    consts = [repr(const) for const in code.co_consts if not isinstance(const, CodeType)]
    return [code.co_code.hex(), *consts, *code.co_names, *inner]


def own_identity(thing: Any) -> dict[str, Json]:
    """What an object of a user's class is beside its fields, for its identity: the class's code, and what it holds.

    Nothing of ours: there fields are all there is. Where it cannot be told, no other object has the same.
    """
    cls: type = type(thing)
    if not is_users(cls):
        return {}
    told = {_TOKEN, *getattr(cls, "__dataclass_fields__", ())}
    code, held = code_of(cls), describe_held({key: value for key, value in vars(thing).items() if key not in told})
    if code is None or held is None:
        return {"code": unknown_code(cls), "holds": token_of(thing)}
    return {"code": code, "holds": held} if held else {"code": code}


def token_of(thing: object) -> str:
    """What stands for what an object holds where that cannot be told: no other object has the same."""
    token: str = vars(thing).setdefault(_TOKEN, uuid.uuid4().hex)
    return token


@lru_cache(maxsize=64)
def unknown_code(cls: type | FunctionType) -> str:
    """What stands for code that cannot be told: good in this process only, so that nothing is reused."""
    warnings.warn(
        f"what {cls.__qualname__} is cannot be told from its source and what it holds, so its results are not reused "
        "between runs; define it in a file, with settings that are plain data",
        stacklevel=3,
    )
    return uuid.uuid4().hex


def _class_attributes(cls: type) -> dict[str, object]:
    """What a user's classes hold besides functions."""
    return {key: value for part in reversed(cls.__mro__) if is_users(part) for key, value in _held(part)}


def _held(part: type) -> Iterator[tuple[str, object]]:
    """What one class itself holds besides functions."""
    skipped = (FunctionType, staticmethod, classmethod, property, cached_property, type, MemberDescriptorType)
    members = vars(part).items()
    return ((key, value) for key, value in members if not key.startswith("_") and not isinstance(value, skipped))


def _methods(cls: type) -> Iterator[FunctionType]:
    """The functions of the user's classes that `cls` is made of."""
    return _functions(member for part in cls.__mro__ if is_users(part) for member in vars(part).values())


def _functions(members: Iterable[object]) -> Iterator[FunctionType]:
    """The functions among a class's members."""
    for member in members:
        for name in ("__func__", "fget", "fset", "func"):  # static and class methods, properties, cached ones
            member = getattr(member, name, None) or member
        if isinstance(member, FunctionType) and not _generated(member):
            yield inspect.unwrap(member)


def _generated(function: FunctionType) -> bool:
    """Has `dataclass` written it? Then what it does follows from the class's own source."""
    return function.__code__.co_filename == "<string>" and function.__name__.startswith("__")


def _read(function: FunctionType, found: dict[tuple[FunctionType, str], Json]) -> None:
    """Add what a function reads from outside: values as they are, the user's functions and classes by their source."""
    defaults = _plain([function.__defaults__, function.__kwdefaults__])
    if defaults != [None, None]:
        found[function, "="] = defaults
    closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    outside = {**function.__globals__, **{name: cell.cell_contents for name, cell in closure}}
    for name in _imported(function.__code__):
        found[function, f"import {name}"] = _version(name)
    for name in _outer_names(function.__code__):
        key = (function, name)
        if name not in outside or key in found:
            continue
        value = outside[name]
        if isinstance(value, type | FunctionType):
            if _is_own(value):
                found[key] = digest(sources(value) if isinstance(value, type) else inspect.getsource(value))
                for inner in _methods(value) if isinstance(value, type) else [inspect.unwrap(value)]:
                    _read(inner, found)
            elif is_users(value) and (version := _version(value.__module__)):
                found[key] = version
        elif isinstance(value, ModuleType):
            if about := _module(value):
                found[key] = about
        elif not isinstance(value, BuiltinFunctionType | np.ufunc):
            found[key] = _plain(value)


def _sorted_reads(found: dict[tuple[FunctionType, str], Json]) -> list[str]:
    return sorted(canonical([f"{f.__qualname__}:{name}", value]) for (f, name), value in found.items())


def _outer_names(code: CodeType) -> set[str]:
    """The global and closure variables that code reads, inner functions included."""
    loads = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
    names = {step.argval for step in dis.get_instructions(code) if step.opname in loads}
    return names.union(*(_outer_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _imported(code: CodeType) -> set[str]:
    """The libraries that code imports as it runs; TypeError for a file of the user's, which may change meanwhile."""
    names = {step.argval.split(".")[0] for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME"} - KNOWN
    for name in names:
        spec = name and importlib.util.find_spec(name)
        if not spec or not _is_installed(spec.origin):
            raise TypeError(f"{name} is imported inside a function; import it at the top of the file")
        with suppress(ImportError):
            importlib.import_module(name)  # so that its version can be told before the first call as after it
    return names.union(*(_imported(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _module(module: ModuleType) -> str:
    """A module: of the user's, its source and that of those of the user's that it reads; of a library, its version."""
    found: dict[str, str] = {}
    _add_sources(module, found)
    return digest(sorted(found.values())) if found else _version(module.__name__)


def _add_sources(module: ModuleType, found: dict[str, str]) -> None:
    file = getattr(module, "__file__", None)
    if not file or file in found or module.__name__.split(".")[0] in KNOWN or _is_installed(file):
        return
    found[file] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    for value in list(vars(module).values()):
        other = sys.modules.get(value.__module__) if isinstance(value, type | FunctionType) else value
        if isinstance(other, ModuleType):
            _add_sources(other, found)


def _version(module: str) -> str:
    """The version of the library that a module belongs to, where it says so and the version counts."""
    top = module.split(".")[0]
    return "" if top in KNOWN else str(getattr(sys.modules.get(top), "__version__", ""))


def _is_own(thing: type | FunctionType) -> bool:
    """Is this class or function one of the user's files', and no installed library's?"""
    return is_users(thing) and not _is_installed(getattr(sys.modules.get(thing.__module__), "__file__", None))


def _is_installed(file: str | None) -> bool:
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _plain(value: object) -> Json:
    """A JSON value that stands for `value`; TypeError where there is none."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        case torch.nn.Module():
            for part in value.modules():
                sources(type(part))  # an error where the source is out of reach
            return {"module": value.digest if isinstance(getattr(value, "digest", None), str) else digest_module(value)}
        case torch.dtype() | torch.device():
            return str(value)
        case torch.Tensor():
            return {"array": digest_arrays([("", bytes_of(value))])}
        case np.ndarray() if not value.dtype.hasobject:
            return {"array": digest_arrays([("", value)])}
        case np.generic() if not isinstance(value.item(), np.generic):
            return _plain(value.item())
        case Mapping():
            if all(isinstance(key, str) for key in value):
                return {key: _plain(item) for key, item in value.items()}
            return {"pairs": sorted(canonical([_plain(key), _plain(item)]) for key, item in value.items())}
        case list() | tuple():
            return [_plain(item) for item in value]
        case set() | frozenset():
            return {"set": sorted(canonical(_plain(item)) for item in value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {type(value).__qualname__: fields, "source": digest(sources(type(value)))}
    fingerprint = getattr(value, "fingerprint", None) or getattr(value, "digest", None)
    if isinstance(fingerprint, str):
        return {type(value).__qualname__: fingerprint}
    raise TypeError(f"{type(value).__qualname__} has no plain description")
