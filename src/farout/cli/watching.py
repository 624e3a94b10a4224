"""Verb `view`."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from farout.cli.options import Plugins, Run, load_plugins


def view(
    folder: Run,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 = a free one.", show_default="0")
    ] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    plugin: Plugins = None,
) -> None:
    """Show the progress of a run in the browser: results done, running and failed, time left, and tables as they fill.

    The page can be reached from this machine only, and only at the address that this command prints. The folder is
    only read, so the run may be on another machine that writes to a shared disk. For a run on a server, start `view`
    there and forward its port: ssh -L 8000:127.0.0.1:8000 SERVER, then `farout view RUN --port 8000`. Ctrl-C ends the
    page, never the run.

    Example: farout view runs/study --open
    """
    load_plugins(plugin)
    from farout.api.view import Viewing

    viewing = Viewing(folder, port)
    typer.echo(f"live view of {folder} (Ctrl-C ends it): {viewing.url}")
    if open_:
        typer.launch(viewing.url)
    with suppress(KeyboardInterrupt):
        viewing.serve()
