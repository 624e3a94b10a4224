"""Descriptions of a user's objects: the code of their class and their attributes.

Stored results are reused if the detector has the same description as the one that computed them. A description is
None if two different objects might get the same one (no source file, or an attribute whose state is not accessible
from Python); then nothing is reused.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Mapping
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import Any

from farout.identity.code import code_of, code_of_function, is_own
from farout.identity.hashes import Json, is_users
from farout.identity.values import NO_DESCRIPTION, none_if_failed, plain

_TOKEN = "_farout_token"
"""Attribute with the random token of an object that has no description."""


def describe(thing: object) -> Json | None:
    """Return the identity that an object declares, by a method or attribute `identity`; else its description.

    None if it declares none and has no description.
    """
    declared = getattr(thing, "identity", None)
    if declared is not None:
        return plain(declared() if callable(declared) else declared)
    return describe_object(thing)


@none_if_failed
def describe_object(thing: object) -> Json | None:
    """Return the class of an object, its code and all attributes; None if an attribute has no description."""
    code = code_of(type(thing))
    return None if code is None else {"class": type(thing).__qualname__, "code": code, "holds": plain(vars(thing))}


@none_if_failed
def describe_function(function: object) -> Json | None:
    """Return the source of a function, method or partial, with outside values and bound objects; None for others."""
    match function:
        case partial():
            inner = describe_function(function.func)
            return inner and {"partial": inner, "given": plain([function.args, dict(function.keywords)])}
        case MethodType():
            inner = describe_function(function.__func__)
            owner = describe_held({"": function.__self__})
            return inner and owner and {"method": inner, "of": owner}
        case FunctionType():
            return code_of_function(function)
    return None


def describe_maker(maker: Any) -> Json:
    """Return the code of a user's class or factory function; a random token if it has no description."""
    code = code_of(maker) if isinstance(maker, type) else describe_function(maker)
    return unknown_code(maker) if code is None else code


def describe_held(attributes: Mapping[str, object]) -> Json | None:
    """Return the values of attributes: data, arrays, modules, functions and the user's objects; None for others."""
    held = {}
    for key, value in attributes.items():
        try:
            held[key] = plain(value)
        except NO_DESCRIPTION:
            held[key] = _describe_attribute(value)
            if held[key] is None:
                return None
    return held


def _describe_attribute(value: object) -> Json | None:
    if isinstance(value, FunctionType | MethodType | partial):
        return describe_function(value)
    return describe(value) if is_own(type(value)) else None  # a library's object may have state in C


def own_identity(thing: Any) -> dict[str, Json]:
    """Return the part of a component's identity beside its fields: the code and attributes of a user's class.

    Empty for farout's own classes, which have only fields. An object without description gets a unique random token.
    """
    cls: type = type(thing)
    if not is_users(cls):
        return {}
    fields = {_TOKEN, *getattr(cls, "__dataclass_fields__", ())}
    code, held = code_of(cls), describe_held({key: value for key, value in vars(thing).items() if key not in fields})
    if code is None or held is None:
        return {"code": unknown_code(cls), "holds": token_of(thing)}
    return {"code": code, "holds": held} if held else {"code": code}


def token_of(thing: object) -> str:
    """Return the random token of an object, which is stored in it and unique."""
    token: str = vars(thing).setdefault(_TOKEN, uuid.uuid4().hex)
    return token


@lru_cache(maxsize=64)
def unknown_code(cls: type | FunctionType) -> str:
    """Return a random token for code without description, valid in this process only; warn that nothing is reused."""
    warnings.warn(
        f"{cls.__qualname__} cannot be identified by its source and attributes, so its results are not reused between "
        "runs; define it in a file, with attributes that are plain data",
        stacklevel=3,
    )
    return uuid.uuid4().hex
