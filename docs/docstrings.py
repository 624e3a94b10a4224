"""Extension of Griffe: docstrings as Markdown, with lists of parameters and with examples as code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

NAMES = re.compile(r"^(\w+(?:, \w+)*): ")
EXAMPLE = re.compile(r"^\s*(>>>|\.\.\.)( |$)")


class Docstrings(griffe.Extension):
    """Rewrites docstrings when they are loaded."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring:
            lines = obj.docstring.value.splitlines()
            obj.docstring.value = "\n".join(_listed(list(_fenced(lines)), _parameters(obj)))


def _parameters(obj: Any) -> set[str]:
    """Return the names that the docstring may explain: parameters of a function, parameters and fields of a class."""
    own = {one.name for one in obj.parameters} if obj.is_function else set()
    inner = {name for name, one in obj.members.items() if one.is_attribute} if obj.is_class else set()
    init = obj.members.get("__init__") if obj.is_class else None
    return own | inner | (_parameters(init) if init is not None and init.is_function else set())


def _fenced(lines: list[str]) -> Iterator[str]:
    """Yield the lines with examples between fences."""
    inside = False
    for line in lines:
        if bool(EXAMPLE.match(line)) != inside:
            yield "```" if inside else "```python"
            inside = not inside
        yield line.strip() if inside else line
    if inside:
        yield "```"


def _listed(lines: list[str], known: set[str]) -> Iterator[str]:
    """Yield the lines with explanations of parameters as items of a list."""
    listing = False
    for line in lines:
        found = NAMES.match(line)
        if found and set(found[1].split(", ")) <= known:
            names = ", ".join(f"`{name}`" for name in found[1].split(", "))
            yield from ([] if listing else [""])
            yield f"- {names}: {line[found.end() :]}"
            listing = True
        elif listing and line and not line.startswith("```"):
            yield f"    {line.strip()}"
        else:
            listing = listing and not line
            yield line
