"""Command line. Heavy imports happen inside the verbs, so that --help is fast."""

from __future__ import annotations

import os
import signal
from typing import Annotated

import typer

from farout import interrupts
from farout.cli import (
    attacks,
    checking,
    generated,
    leaderboard,
    listing,
    reports,
    sets,
    slurm,
    studies,
    trained,
    watching,
)
from farout.cli.ending import leave, message
from farout.user_code import raised_at

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Stress tests for out-of-distribution detectors.\n\n"
    "Start with [bold]farout demo[/bold]; then write a study (see studies/) and [bold]farout run[/bold] it.\n\n"
    "Exit codes: 0 done, 1 some results failed, 2 bad usage, 130 stopped with Ctrl-C (the same command resumes).",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from farout import __version__

        typer.echo(f"farout {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None: ...


app.command("list")(listing.list_)
app.command("import")(trained.import_)
for verb in (
    checking.check, studies.plan, studies.run, reports.report, reports.compare, watching.view, sets.render,
    sets.corrupt, attacks.attack, generated.generate, trained.train, studies.demo,
    slurm.work,
):  # fmt: skip
    app.command()(verb)
app.add_typer(leaderboard.app, name="leaderboard")


def main() -> None:
    """Run the command line; every error ends in one clear message and exit code 2."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads are slow when another job shares the cores
    interrupts.listen(signal.SIGTERM, signal.SIGINT)
    try:
        app(prog_name="farout")
    except SystemExit as end:
        if place := raised_at(end):
            typer.echo(f"error: your code ends the program with sys.exit({end.code!r}){place}", err=True)
            leave(2)
        leave(end.code if isinstance(end.code, int) else 0)
    except Exception as error:
        if code := interrupts.exit_code():  # a library interrupted during its import may raise any error
            leave(code)
        if os.environ.get("FAROUT_DEBUG"):
            raise
        typer.echo(f"error: {message(error)}\n(FAROUT_DEBUG=1 shows where it came from)", err=True)
        leave(2)
