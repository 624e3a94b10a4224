"""What there is, and whether a detector is well behaved."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from farout.cli.ending import users_code
from farout.cli.options import Plugins, load_plugins

if TYPE_CHECKING:
    from farout.registry import Registry


class Family(StrEnum):
    """What can be listed."""

    detectors = "detectors"
    networks = "networks"
    datasets = "datasets"
    protocols = "protocols"
    shifts = "shifts"
    attacks = "attacks"
    variations = "variations"
    searches = "searches"
    adapters = "adapters"


def list_(
    family: Annotated[Family, typer.Argument(help="What to list.")],
    plugin: Plugins = None,
) -> None:
    """Names that studies may use, with a line about each.

    Example: farout list detectors
    """
    load_plugins(plugin)
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for name, about in _listed(family):
        table.add_row(f"[bold]{escape(name)}[/bold]", escape(about))
    Console().print(table)


def _listed(family: Family) -> list[tuple[str, str]]:
    """Names of a family with the first line of each one's docstring."""
    from farout.adapters import ADAPTERS
    from farout.attacks import ATTACKS
    from farout.data.catalog import DATASETS
    from farout.detectors.catalog import catalog
    from farout.networks import NETWORKS
    from farout.protocols import PROTOCOLS
    from farout.registry import load_entry_points
    from farout.search import SEARCHES
    from farout.shifts.catalog import catalog as shifts
    from farout.variations import VARIATIONS

    load_entry_points()
    registries: dict[str, Registry[Any]] = {
        "detectors": catalog,
        "adapters": ADAPTERS,
        "networks": NETWORKS,
        "datasets": DATASETS,
        "protocols": PROTOCOLS,
        "shifts": shifts,
        "attacks": ATTACKS,
        "variations": VARIATIONS,
        "searches": SEARCHES,
    }
    registry = registries[family.value]
    return [(name, (registry[name].__doc__ or "").strip().split("\n")[0]) for name in registry.names()]


def check(
    detector: Annotated[
        str, typer.Argument(help="A known detector's name, or file.py:Name for a class, object or function of yours.")
    ],
    data: Annotated[
        str | None, typer.Option(help="Inliers to try it on: a name, an .npz file or a folder.", show_default="toy")
    ] = None,
) -> None:
    """Is this detector well behaved? Ten checks that every detector must pass.

    Example: farout check mine.py:Mine
    """
    import farout
    from farout.adapters import ADAPTERS
    from farout.detectors.catalog import catalog
    from farout.plugins import named_object

    if detector in ADAPTERS:
        raise ValueError(f"{detector} is an adapter; make a detector with it in a file, and check that: file.py:Name")
    with users_code():
        subject = named_object(detector) if ":" in detector or detector.endswith(".py") else catalog[detector]
    findings = farout.check(subject, farout.load(data) if data else None)
    for finding in findings:
        mark = typer.style("failed", fg="red") if finding.problem else typer.style("ok    ", fg="green")
        typer.echo(f"{mark} {finding.check}" + (f": {finding.problem}" if finding.problem else ""))
    if any(finding.problem for finding in findings):
        raise typer.Exit(1)
