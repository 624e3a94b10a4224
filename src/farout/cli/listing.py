"""Verb `list`: list components."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from farout.cli.options import Plugins, load_plugins

if TYPE_CHECKING:
    from rich.table import Table

    from farout.registry import Registry


class Family(StrEnum):
    """Kinds of components that can be listed."""

    detectors = "detectors"
    networks = "networks"
    datasets = "datasets"
    protocols = "protocols"
    shifts = "shifts"
    attacks = "attacks"
    variations = "variations"
    searches = "searches"
    generators = "generators"
    adapters = "adapters"
    engines = "engines"


def list_(
    family: Annotated[Family, typer.Argument(help="Kind of component to list.")],
    name: Annotated[
        str | None, typer.Argument(help="Show one component with its parameters.", show_default="all")
    ] = None,
    plugin: Plugins = None,
) -> None:
    """List the names that studies may use, with a line about each and its other names in the literature; with NAME,
    show the parameters, paper and inputs of one component.

    Example: farout list detectors knn
    """
    load_plugins(plugin)
    registry = _registry(family)
    if name is not None:
        _show(registry, name)
        return
    from rich.console import Console
    from rich.markup import escape

    table = _table()
    for known in registry.names():
        others = ", ".join(alias for alias, of in registry.aliases.items() if of == known)
        line = (registry[known].__doc__ or "").strip().split("\n")[0]
        table.add_row(f"[bold]{escape(known)}[/bold]", escape(line), escape(others))
    Console().print(table)
    if family is Family.datasets:
        from farout.data.paths import FORMATS

        Console().print(escape(f"\nInstead of a name, a path: {FORMATS}."), soft_wrap=False, highlight=False)


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, pad_edge=False, show_header=False)


def _show(registry: Registry[Any], name: str) -> None:
    """Print the details of one component."""
    from rich.console import Console
    from rich.markup import escape

    from farout.cli.details import about, facts, parameters

    maker, table = registry[name], _table()
    others = ", ".join(alias for alias, of in registry.aliases.items() if of == name)
    for what, value in [*facts(maker), *([("also called", others)] if others else [])]:
        table.add_row(what, escape(value))
    params = _table()
    for key, default, meaning in parameters(maker):
        value = f"= {default}" if default else "(required)"
        params.add_row(f"  [bold]{escape(key)}[/bold]", escape(value), escape(meaning))
    console = Console()
    console.print(f"[bold]{escape(name)}[/bold]  {escape(about(maker))}\n")
    console.print(table)
    console.print("parameters" if params.row_count else "no parameters")
    console.print(params)


def _registry(family: Family) -> Registry[Any]:
    """Return the registry of a family."""
    from farout.registry import KINDS, registry_of

    return registry_of(next(kind for kind in KINDS if family.value.startswith(kind)))
