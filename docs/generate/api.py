"""API reference: directives for mkdocstrings, one per public name of a package."""

from __future__ import annotations

import importlib
import types

TOP = "farout"


def api(package: str) -> str:
    """Return the directives of a package's public names; those that are packages have pages of their own."""
    return "\n".join(f"::: {package}.{name}\n" for name in names(package))


def names(package: str) -> list[str]:
    """Return the public names of a package that its page documents."""
    module = importlib.import_module(package)
    return [name for name in module.__all__ if not isinstance(getattr(module, name), types.ModuleType)]
