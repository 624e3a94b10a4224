"""Descriptions of a user's objects: the code of their class and what they hold.

Stored results are reused where the detector that made them is described the same today. A description is None where
two different objects might get the same one (no source file, or an attribute whose state Python does not show); then
nothing is reused.
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
from farout.identity.values import NO_DESCRIPTION, or_none, plain

_TOKEN = "_farout_token"
"""Attribute with the random token of an object that has no description."""


def describe(thing: object) -> Json | None:
    """Return what the object declares itself to be, by `identity()` or an `identity` attribute; else its description.

    None where it can be neither declared nor described.
    """
    declared = getattr(thing, "identity", None)
    if declared is not None:
        return plain(declared() if callable(declared) else declared)
    return describe_object(thing)


@or_none
def describe_object(thing: object) -> Json | None:
    """Return an object's class, the code of it, and all attributes: data, arrays and modules; None for others."""
    code = code_of(type(thing))
    return None if code is None else {"class": type(thing).__qualname__, "code": code, "holds": plain(vars(thing))}


@or_none
def describe_function(function: object) -> Json | None:
    """Return the source of a function, a bound method or a partial, what it reads from outside and is bound to."""
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
    """Return the code of a user's class or function that makes things; a token of its own where there is none."""
    code = code_of(maker) if isinstance(maker, type) else describe_function(maker)
    return unknown_code(maker) if code is None else code


def describe_held(attributes: Mapping[str, object]) -> Json | None:
    """Return what attributes hold: data, arrays, modules, functions and the user's own objects; None for others."""
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
    return describe(value) if is_own(type(value)) else None  # a library's object may hold what Python does not show


def own_identity(thing: Any) -> dict[str, Json]:
    """Return what belongs to a component's identity beside its fields: of a user's class its code and attributes.

    Empty for our own classes, where fields are all there is. What cannot be described gets a token, which no other
    object has.
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
    """Return a random token that an object keeps and that no other object has."""
    token: str = vars(thing).setdefault(_TOKEN, uuid.uuid4().hex)
    return token


@lru_cache(maxsize=64)
def unknown_code(cls: type | FunctionType) -> str:
    """Return a random token for code without description, good in this process only; warn that nothing is reused."""
    warnings.warn(
        f"what {cls.__qualname__} is cannot be told from its source and what it holds, so its results are not reused "
        "between runs; define it in a file, with settings that are plain data",
        stacklevel=3,
    )
    return uuid.uuid4().hex
