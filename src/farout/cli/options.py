"""Options that several verbs share, and what follows from them."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from farout.cli.ending import users_code


class BudgetName(StrEnum):
    """How long a run may take."""

    quick = "quick"
    standard = "standard"
    full = "full"


Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="A Python file of yours to import, e.g. one that registers detectors."),
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for results.", show_default="runs/NAME")]
Workers = Annotated[int | None, typer.Option(min=0, help="Worker processes; 0 = none.", show_default="one per core")]
Engine = Annotated[str, typer.Option(help="What computes: see `farout list engines`.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0.001, help="Seconds that a detector may take for a chunk of images or a step of a search.",
        show_default="no limit",
    ),
]  # fmt: skip
Without = Annotated[
    list[str] | None, typer.Option("--without", help="Leave this detector out (name or label), may be repeated.")
]
Device = Annotated[str, typer.Option(help="Where networks run: cpu, cuda, cuda:1, …")]
Budget = Annotated[
    BudgetName | None, typer.Option(help="quick: minutes; standard: an hour or two; full: as in the papers.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Open = Annotated[bool, typer.Option("--open", help="Show the report in a browser.")]


DataOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option", help="An option of INPUT as in a study's `options:`, may be repeated: --option coarse=true."
    ),
]


def settings(given: list[str] | None, option: str) -> dict[str, Any]:
    """Return what was given as NAME=VALUE, each value read as in a study file."""
    from farout.study.yaml_files import load

    found: dict[str, Any] = {}
    for item in given or []:
        key, sign, value = item.partition("=")
        if not sign or not key:
            raise ValueError(f"{option} takes NAME=VALUE, got {item!r}")
        try:
            found[key] = load(value)
        except ValueError as error:
            raise ValueError(f"{option} {item!r}: the value cannot be read ({error})") from error
    return found


def numbers(text: str | None, option: str) -> float | tuple[float, ...] | None:
    """`0.485,0.456,0.406` as a tuple, `0.5` as a number."""
    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{option} takes numbers with commas between them, 0.485,0.456,0.406, got {text!r}") from None
    return values[0] if len(values) == 1 else values


def load_plugins(paths: list[Path] | None) -> None:
    """Import the user's files."""
    if paths:
        from farout.plugins import load_plugin

        with users_code():
            for path in paths:
                load_plugin(path)


def plugin_paths(paths: list[Path] | None) -> tuple[str, ...]:
    """The plugins as worker processes import them."""
    return tuple(str(path.resolve()) for path in paths or ())


def worker_count(workers: int | None) -> int:
    """The worker processes asked for."""
    return workers if workers is not None else os.cpu_count() or 1
