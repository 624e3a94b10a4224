"""Verbs `list` and `check`: list components, and check a detector."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from farout.cli.ending import users_code
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


def check(
    detector: Annotated[
        str,
        typer.Argument(help="Name of a registered detector, or file.py:Name for your own class, object or function."),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            help="Inliers for the checks: a name, or the path of a file, a folder or shards.", show_default="toy"
        ),
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Run ten checks that every detector must pass.

    Example: farout check mine.py:Mine
    """
    import farout
    from farout.adapters import ADAPTERS
    from farout.detectors.catalog import catalog
    from farout.plugins import named_object

    load_plugins(plugin)
    if detector in ADAPTERS:
        raise ValueError(f"{detector} is an adapter; create a detector with it in a file, and check that: file.py:Name")
    with users_code():
        subject = named_object(detector) if ":" in detector or detector.endswith(".py") else catalog[detector]
    findings = farout.check(subject, farout.load(data) if data else None)
    for finding in findings:
        mark = typer.style("failed", fg="red") if finding.problem else typer.style("ok    ", fg="green")
        typer.echo(f"{mark} {finding.check}" + (f": {finding.problem}" if finding.problem else ""))
    if any(finding.problem for finding in findings):
        raise typer.Exit(1)
