"""Verb `check`: check a detector, also under faults."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from farout.cli.ending import stoppable, users_code
from farout.cli.options import Plugins, Quiet, load_plugins

LARGEST = 10_000
"""Largest number of kills."""


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
    faults: Annotated[
        bool,
        typer.Option(
            "--faults",
            help="Run a small study with the detector, which is killed at random moments, starved of disk space, "
            "stopped, and whose files are damaged; continue it, and compare all scores with a run left alone.",
        ),
    ] = False,
    kills: Annotated[
        int | None,
        typer.Option(min=1, max=LARGEST, help="With --faults: number of kills.", show_default="10"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="With --faults: seed of the random moments.", show_default="0")
    ] = None,
    plugin: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Run ten checks that every detector must pass, or put a study with it through faults.

    Example: farout check mine.py:Mine

    Example: farout check --faults mine.py:Mine --kills 20
    """
    from farout.adapters import ADAPTERS

    load_plugins(plugin)
    if detector in ADAPTERS:
        raise ValueError(f"{detector} is an adapter; create a detector with it in a file, and check that: file.py:Name")
    if faults:
        if data is not None:
            raise ValueError(f"--faults runs a study on the built-in toy set and takes no --data, got {data!r}")
        _check_faults(detector, kills or 10, seed or 0, plugin, quiet)
        return
    if kills is not None or seed is not None:
        raise ValueError(f"{'--kills' if kills is not None else '--seed'} needs --faults")
    _check(_subject(detector), data)


def _subject(detector: str) -> Any:
    """Return the registered class, or the object of a user's file."""
    from farout.detectors.catalog import catalog
    from farout.plugins import named_object

    with users_code():
        return named_object(detector) if ":" in detector or detector.endswith(".py") else catalog[detector]


def _check(subject: Any, data: str | None) -> None:
    """Print the findings of all checks; exit with 1 if one failed."""
    import farout

    findings = farout.check(subject, farout.load(data) if data else None)
    for finding in findings:
        mark = typer.style("failed", fg="red") if finding.problem else typer.style("ok    ", fg="green")
        typer.echo(f"{mark} {finding.check}" + (f": {finding.problem}" if finding.problem else ""))
    if any(finding.problem for finding in findings):
        raise typer.Exit(1)


def _check_faults(detector: str, kills: int, seed: int, plugins: list[Path] | None, quiet: bool) -> None:
    """Print the verdict on every fault; exit with 1 if something was lost, wrong or not named."""
    from farout.faults import run_series, toy_study
    from farout.faults.series import counts, sentences
    from farout.progress import shown

    _subject(detector)
    problems = 0
    with stoppable(), TemporaryDirectory(prefix="farout-faults-") as folder, shown(quiet):
        bench = toy_study(detector, Path(folder), tuple(plugins or ()))
        for verdict in run_series(bench, counts(kills), seed):
            problems += len(verdict.problems)
            typer.echo("\n".join(sentences(verdict)))
    if problems:
        raise typer.Exit(1)
