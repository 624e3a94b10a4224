"""Docstrings as Markdown: explanations of parameters as a list, examples as code."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

NAMES = re.compile(r"^(\w+(?:, \w+)*): ")
EXAMPLE = re.compile(r"^\s*(>>>|\.\.\.)( |$)")


def rewritten(text: str, known: Collection[str]) -> str:
    """Return a docstring as Markdown.

    known: names of the parameters and fields that it may explain ("side, crop: …" at the beginning of a line).
    """
    return "\n".join(_listed(_fenced(text.splitlines()), known))


def _fenced(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines with examples between fences."""
    inside = False
    for line in lines:
        if bool(EXAMPLE.match(line)) != inside:
            yield "```" if inside else "```python"
            inside = not inside
        yield line.strip() if inside else line
    if inside:
        yield "```"


def _listed(lines: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """Yield the lines with explanations of parameters as items of a list; indented lines continue an item."""
    listing = False
    for line in lines:
        found = NAMES.match(line)
        names = found[1].split(", ") if found else []
        if found and all(name in known for name in names):
            yield from [] if listing else [""]
            yield f"- {', '.join(f'`{name}`' for name in names)}: {line[found.end() :]}"
            listing = True
        else:
            listing = listing and bool(line) and not line.startswith("```")
            yield f"    {line.strip()}" if listing else line
