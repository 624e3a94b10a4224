"""Details of one registered component: description, paper, inputs, and parameters with their meanings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

PAPER = re.compile(
    r"[A-Z][\w-]+(?: (?:and|&) [A-Z][\w-]+| et al\.)? (?:19|20)\d\d"
    r"(?:, (?:eqs?\.|section|table|algorithm|figure|appendix) [\w.]*\w(?: (?:and|to) \w+)?)?"
)
COMMON = {
    "variant": '"paper" as published, or another library\'s: "openood".',
    "seed": "Random seed.",
    "steps": "Number of steps.",
    "split": 'Split of the data: "train", "val", "test", …',
    "side": "Height and width of the images, in pixels.",
    "severity": "Severity, from 1 to 5.",
    "classes": "Number of classes.",
    "channels": "Channels of the images: 3, or 1 for gray.",
}
"""Meanings of common parameters, used if a component documents none."""


class Parameter(NamedTuple):
    """Parameter of a component: name, default and meaning, as text."""

    name: str
    default: str
    """Default value as text; empty if the parameter is required."""
    meaning: str


def facts(maker: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Yield facts about a component besides its parameters: paper, inputs, fitting split."""
    doc = " ".join((maker.__doc__ or "").split())
    if papers := list(dict.fromkeys(match.strip(" ,") for match in PAPER.findall(doc))):
        yield "papers" if len(papers) > 1 else "paper", "; ".join(papers)
    if not isinstance(maker, type) or not hasattr(maker, "fits_on"):
        return
    yield "reads", ", ".join(sorted(_needs(maker))) + (", from perturbed passes of its own" if _perturbs(maker) else "")
    learned = f"the inliers' {maker.fits_on} split" if maker.fits_on else "nothing"
    yield "fitted on", learned + (", and outliers if given" if getattr(maker, "supervised", False) else "")


def parameters(maker: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters that a study or `create` may set."""
    accepted = [one for one in inspect.signature(maker).parameters.values() if one.kind is not one.VAR_KEYWORD]
    meanings = _meanings(maker, [one.name for one in accepted])
    return [Parameter(one.name, _default(one), meanings.get(one.name, COMMON.get(one.name, ""))) for one in accepted]


def about(maker: Callable[..., Any]) -> str:
    """Return the docstring."""
    return inspect.cleandoc(maker.__doc__ or "")


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return ""
    if isinstance(parameter.default, dataclasses.Field) or "factory" in repr(parameter.default):
        return "…"
    return repr(parameter.default)


def _meanings(maker: Callable[..., Any], names: list[str]) -> dict[str, str]:
    """Return the meanings of parameters from docstrings: "name: …" in the component's own, or below a field."""
    parts: list[Any] = [*reversed(maker.__mro__)] if isinstance(maker, type) else [maker]
    meanings: dict[str, str] = {}
    for part in parts:
        if part.__module__.partition(".")[0] in ("builtins", "abc", "typing"):
            continue
        docs = (part.__doc__, getattr(vars(part).get("__init__"), "__doc__", None))
        meanings |= {name: text for doc in docs for name in names if (text := _in_docstring(doc or "", name, names))}
        meanings |= field_docs(part) if isinstance(part, type) else {}
    return meanings


def _in_docstring(doc: str, name: str, names: list[str]) -> str:
    following = "|".join(map(re.escape, names))
    end = rf"\n\s*\n|(?:^|[\s.;])(?:\w+, )*(?:{following}): |\Z"
    pattern = rf"(?:^|[\s.;])(?:\w+, )*{re.escape(name)}(?:, \w+)*: (.*?)(?={end})"
    match = re.search(pattern, inspect.cleandoc(doc), re.DOTALL)
    return " ".join(match[1].split()) if match else ""


def field_docs(cls: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    meanings: dict[str, str] = {}
    for field, doc in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(doc, ast.Expr):
            value = getattr(doc.value, "value", None)
            meanings |= {field.target.id: " ".join(value.split())} if isinstance(value, str) else {}
    return meanings


def _needs(cls: Any) -> frozenset[str]:
    return frozenset(cls.needs if isinstance(cls.needs, frozenset) else cls().needs)


def _perturbs(cls: Any) -> bool:
    return bool(cls.perturbs if isinstance(cls.perturbs, bool) else cls().perturbs)
