"""Extension of Griffe, which reads docstrings for mkdocstrings: rewrites them as Markdown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.append(str(Path(__file__).parent))
from generate.docstrings import rewritten


class Docstrings(griffe.Extension):
    """Rewrites docstrings when they are loaded."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = rewritten(obj.docstring.value, _parameters(obj))


def _parameters(obj: Any) -> set[str]:
    """Return the names that the docstring may explain: parameters of a function, parameters and fields of a class."""
    own = {one.name for one in obj.parameters} if obj.is_function else set()
    inner = {name for name, one in obj.members.items() if one.is_attribute} if obj.is_class else set()
    init = obj.members.get("__init__") if obj.is_class else None
    return own | inner | (_parameters(init) if init is not None and init.is_function else set())
