"""Tables of the components that farout provides: detectors, data sets, networks, shifts and so on."""

from __future__ import annotations

from typing import Any

from farout.cli.details import about, parameters
from farout.registry import registry_of
from generate.markdown import code, one_line, prose, table


def components(kind: str) -> str:
    """Return a table of all components of a kind: name, description and parameters."""
    registry = registry_of(kind)
    rows = ([code(name), _about(registry[name]), _parameters(registry[name])] for name in registry.names())
    return table(("name", "", "parameters"), rows)


def _about(maker: Any) -> str:
    """Return the first paragraph of the docstring."""
    return prose(one_line(about(maker).split("\n\n")[0]))


def _parameters(maker: Any) -> str:
    return ", ".join(code(f"{one.name}={one.default}" if one.default else one.name) for one in parameters(maker))
