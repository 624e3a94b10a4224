"""Options that several verbs share, and their parsers."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from farout.cli.ending import users_code


class BudgetName(StrEnum):
    """Budget of a run: how many images and steps it uses."""

    quick = "quick"
    standard = "standard"
    full = "full"


Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", help="Python file to import first, e.g. one that registers your detectors; may be repeated."
    ),
]
Out = Annotated[
    str | None,
    typer.Option("--out", help="Folder for results, or an address such as s3://BUCKET/RUN.", show_default="runs/NAME"),
]
Run = Annotated[str, typer.Argument(help="Output folder of `farout run`, or its address, such as s3://BUCKET/RUN.")]
Workers = Annotated[
    int | None,
    typer.Option(min=0, help="Worker processes of one core each; 0 = none.", show_default="one per core or GPU"),
]
Engine = Annotated[str, typer.Option(help="What computes: see `farout list engines`.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0.001, help="Time limit in seconds for a detector to score a chunk of images or a search step.",
        show_default="no limit",
    ),
]  # fmt: skip
Without = Annotated[
    list[str] | None, typer.Option("--without", help="Leave this detector out (name or label), may be repeated.")
]
Device = Annotated[str, typer.Option(help="Device of the networks: cpu, cuda (all GPUs), cuda:1, mps, …")]
Memory = Annotated[
    str | None,
    typer.Option(
        help="Memory of all processes together, such as 4GiB; with --engine ray, what a task reserves.",
        show_default="no limit",
    ),
]
Budget = Annotated[
    BudgetName | None, typer.Option(help="quick: minutes; standard: an hour or two; full: as in the papers.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Open = Annotated[bool, typer.Option("--open", help="Open the report in a browser.")]


DataOptions = Annotated[
    list[str] | None,
    typer.Option("--option", help="Option of INPUT as in a study's `options:`, may be repeated: --option coarse=true."),
]


def settings(items: list[str] | None, option: str) -> dict[str, Any]:
    """Parse NAME=VALUE pairs, each value as in a study file."""
    from farout.study.yaml_files import load

    parsed: dict[str, Any] = {}
    for item in items or []:
        key, sign, value = item.partition("=")
        if not sign or not key:
            raise ValueError(f"{option} takes NAME=VALUE, got {item!r}")
        try:
            parsed[key] = load(value)
        except ValueError as error:
            raise ValueError(f"{option} {item!r}: the value cannot be read ({error})") from error
    return parsed


def numbers(text: str | None, option: str) -> float | tuple[float, ...] | None:
    """Parse `0.485,0.456,0.406` as a tuple, `0.5` as a number."""
    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{option} takes numbers with commas between them, 0.485,0.456,0.406, got {text!r}") from None
    return values[0] if len(values) == 1 else values


def load_plugins(paths: list[Path] | None) -> None:
    """Import the user's plugin files."""
    if paths:
        from farout.plugins import load_plugin

        with users_code():
            for path in paths:
                load_plugin(path)


def plugin_paths(paths: list[Path] | None) -> tuple[str, ...]:
    """Return the absolute paths of the plugins, for worker processes."""
    return tuple(str(path.resolve()) for path in paths or ())


def worker_count(workers: int | None, engine: str = "local", device: str = "cpu") -> int:
    """Return the number of worker processes: as requested, or one per core, on GPUs one per GPU.

    By default, Slurm uses one per array task, and Ray as many as the cluster has resources for, which is 0.
    """
    if workers is not None:
        return workers
    if engine in ("slurm", "ray"):
        return {"slurm": 1, "ray": 0}[engine]
    from farout.devices import default_workers

    return default_workers(device, os.cpu_count() or 1)
