"""Verb `work`, which the tasks of a Slurm array run; and the options of the engine "slurm"."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from farout import interrupts
from farout.cli.ending import stoppable

PANEL = "With --engine slurm"
BOTH = "With --engine slurm or ray"
Partition = Annotated[str | None, typer.Option(help="Partition of the cluster.", rich_help_panel=PANEL)]
Time = Annotated[
    str | None, typer.Option(help="Time limit of an array task, as sbatch takes it: 2:00:00.", rich_help_panel=PANEL)
]
Gpus = Annotated[
    str | None,
    typer.Option(
        help="GPUs of a task: of Slurm as sbatch takes them, 1 or a100:1; of Ray 1 or 0.25.", rich_help_panel=BOTH
    ),
]
TaskMinutes = Annotated[
    float | None,
    typer.Option(
        min=0.01, help="Estimated minutes of work per array task.", rich_help_panel=PANEL, show_default="30"
    ),
]  # fmt: skip
Sbatch = Annotated[
    list[str] | None,
    typer.Option(help="Further option of sbatch, may be repeated: --sbatch=--account=vision.", rich_help_panel=PANEL),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the batch scripts and submit nothing.", rich_help_panel=PANEL)
]


def work(
    folder: Annotated[Path, typer.Argument(help="Folder of the array: RUN/slurm/NAME.")],
    task: Annotated[int, typer.Option(min=0, help="Number of the task.", envvar="SLURM_ARRAY_TASK_ID")],
) -> None:
    """Compute one task of a Slurm array. The scripts that `farout run --engine slurm` submits call this.

    The results go to the run's folder. Before its time limit, the task is put back into the queue, and the next attempt
    resumes; --task is needed only outside of Slurm.

    Example: farout work runs/study/slurm/0001-3f2a9c1e --task 0
    """
    from farout.api.work import NoProgress
    from farout.api.work import work as compute
    from farout.progress import shown

    interrupts.listen(signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    try:
        with stoppable(), shown() as listener:
            outcome = compute(folder, task, listener)
    except NoProgress as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    if outcome is None:
        typer.echo("the time limit is near: back in the queue; the next attempt resumes")
        return
    typer.echo(f"{len(outcome.done)} results computed, {len(outcome.failed)} failed")
    if outcome.failed:
        for why in dict.fromkeys(outcome.failed.values()):
            typer.echo(f"failed: {why}", err=True)
        raise typer.Exit(1)


def engine_options(**options: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def offer_cancel(folder: Path) -> None:
    """Ask on a terminal if the jobs that compute results of a run are canceled."""
    from farout.study.engines.slurm import client
    from farout.study.engines.slurm.tasks import job_list, running_tasks
    from farout.study.store import Store

    tasks = running_tasks(Store(folder.absolute()))
    if (
        tasks
        and sys.stdin.isatty()
        and typer.confirm(f"Cancel {len(tasks)} array tasks ({job_list(tasks)})?", err=True)
    ):
        client.cancel({task.job for task in tasks})
        typer.echo("canceled; finished results are kept", err=True)
