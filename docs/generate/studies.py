"""Keys of study files, from the models that read them, and parameters of protocols, from their constructors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from farout.cli.details import field_docs, parameters
from farout.protocols import PROTOCOLS
from farout.study.spec import StudySpec
from farout.study.spec.networks import TrainSpec
from generate.markdown import code, one_line, prose, table

PLAIN = {bool: "`true` or `false`", int: "whole number", float: "number", str: "text", dict: "mapping", NoneType: ""}
"""Words for types of values in YAML."""
TITLES = {"study": "The study", "near": "near_ood", "sampled": "generated"}
"""Headings of models, where they are not the model's name."""
OMITTED = {(TrainSpec, "seed")}
"""Fields that a study file cannot set."""


def study() -> str:
    """Return a section per model of a study file, each with a table of its keys."""
    return "\n".join(_section(model) for model in models(StudySpec))


def models(model: type[Any]) -> list[type[Any]]:
    """Return the model, and all models that its keys lead to, in order of appearance."""
    found = [model]
    for one in found:  # grows while it is read
        found += [other for kind in _types(one).values() for other in _inside(kind) if other not in found]
    return list(dict.fromkeys(found))


def keys(model: type[Any]) -> list[str]:
    """Return the names of the keys of a model."""
    return [name for name in _types(model) if (model, name) not in OMITTED]


def title(model: type[Any]) -> str:
    """Return the heading of a model's section."""
    name = model.__name__.removesuffix("Spec").lower()
    return TITLES.get(name, name)


def protocol(name: str) -> str:
    """Return the table of a protocol's parameters."""
    rows = ((code(one.name), code(one.default), prose(one.meaning)) for one in parameters(PROTOCOLS[name]))
    return table(("key", "default", "meaning"), rows)


def _section(model: type[Any]) -> str:
    about = prose(one_line(model.__doc__ or ""))
    rows = ([code(key), _words(_types(model)[key]), _default(model, key), _meaning(model, key)] for key in keys(model))
    return f"## {title(model)}\n\n{about}\n\n{table(('key', 'value', 'default', 'meaning'), rows)}"


def _types(model: type[Any]) -> dict[str, Any]:
    """Return the annotations of a model's fields by name."""
    if issubclass(model, BaseModel):
        return {name: field.annotation for name, field in model.model_fields.items()}
    hints = get_type_hints(model, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(model)}


def _inside(kind: Any) -> Iterator[type[Any]]:
    """Yield the models in an annotation."""
    if _is_model(kind):
        yield kind
    for part in get_args(kind):
        yield from _inside(part)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or kind is TrainSpec)


def _words(kind: Any) -> str:
    """Return an annotation in words, with links to the sections of models."""
    origin, parts = get_origin(kind), get_args(kind)
    if _is_model(kind):
        return f"[{title(kind)}](#{title(kind).lower().replace(' ', '-')})"
    if origin is Annotated:
        return _words(parts[0])
    if origin is Literal:
        return " or ".join(code(str(part)) for part in parts)
    if origin in (list, tuple):
        return f"list of {', '.join(dict.fromkeys(_words(part) for part in parts if part is not Ellipsis))}"
    if origin in (Union, UnionType):
        return " or ".join(filter(None, map(_words, parts)))
    return PLAIN.get(origin or kind, "any value")


def _default(model: type[Any], key: str) -> str:
    """Return the default as it is written in YAML."""
    if issubclass(model, BaseModel):
        field = model.model_fields[key]
        if field.is_required():
            return "required"
        value = field.get_default(call_default_factory=True)
    else:
        value = {field.name: field.default for field in dataclasses.fields(model)}[key]
    return code(_yaml(value)) if value not in (None, [], {}, ()) else "none"


def _yaml(value: Any) -> str:
    if isinstance(value, BaseModel):
        return str(getattr(value, "name", value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meaning(model: type[Any], key: str) -> str:
    """Return the docstring below a field, of the class itself or of a base."""
    docs = {name: doc for base in reversed(model.__mro__) for name, doc in field_docs(base).items()}
    return prose(docs.get(key, ""))
