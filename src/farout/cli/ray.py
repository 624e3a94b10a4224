"""Options of the engine "ray"."""

from __future__ import annotations

from typing import Annotated

import typer

PANEL = "With --engine ray"
Address = Annotated[
    str | None,
    typer.Option(
        help="The cluster: host:6379, auto (that of this machine) or local (start one).", rich_help_panel=PANEL,
        show_default="RAY_ADDRESS, auto, local",
    ),
]  # fmt: skip
Cpus = Annotated[float | None, typer.Option(help="CPUs of a task.", rich_help_panel=PANEL, show_default="1")]
