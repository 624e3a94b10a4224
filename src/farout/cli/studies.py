"""Verbs `plan`, `run` and `demo`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from farout.cli.ending import stoppable
from farout.cli.options import (
    Budget,
    BudgetName,
    Device,
    Engine,
    Memory,
    Open,
    Out,
    Plugins,
    Quiet,
    Timeout,
    Without,
    Workers,
    load_plugins,
    plugin_paths,
    worker_count,
)  # fmt: skip
from farout.cli.ray import Address, Cpus
from farout.cli.slurm import DryRun, Gpus, Partition, Sbatch, TaskMinutes, Time, engine_options, offer_cancel
from farout.terminal import one_line

if TYPE_CHECKING:
    from farout.api.run import Result
    from farout.study.spec import StudySpec


def plan(
    study: Annotated[Path, typer.Argument(help="The study, a YAML file.")],
    out: Out = None,
    budget: Budget = None,
    engine: Engine = "local",
    workers: Workers = None,
    device: Device = "cpu",
    task_minutes: TaskMinutes = None,
    plugin: Plugins = None,
    list_: Annotated[bool, typer.Option("--list", help="Also list every missing piece of work.")] = False,
    memory: Memory = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate/--no-calibrate", help="Estimate hours, memory and disk by short trials.")
    ] = True,
) -> None:
    """Show what a run would compute and what is already stored, by protocol, and about how long it would take.

    Nothing is stored or downloaded. For the estimate, the networks and detectors of the study are tried out on
    synthetic images for up to half a minute: of another machine or device it says nothing.

    Example: farout plan study.yaml --budget quick --workers 4
    """
    load_plugins(plugin)
    from farout.api.plan import Planned, planned_workers
    from farout.data.download import NotDownloaded, offline
    from farout.study.downloads import missing_downloads
    from farout.study.remote.session import readable

    count = planned_workers(worker_count(workers, device=device), engine, memory)
    spec = _spec(study, budget)
    try:
        with offline():
            planned = Planned.of(spec, readable(out or Path("runs") / spec.name, may_be_empty=True))
    except NotDownloaded:
        raise missing_downloads(spec) from None
    for line in (*planned.totals(), *(planned.works() if list_ else ())):
        typer.echo(line)
    for cut in planned.cuts:
        typer.echo(f"left out: {cut}")
    for line in planned.estimate(device, engine, count, task_minutes) if calibrate else ():
        typer.echo(line)
    counts = planned.counts
    typer.echo(f"{counts.missing} of {counts.total} results are missing at budget {spec.budget}")


def run(
    study: Annotated[Path, typer.Argument(help="The study, a YAML file.")],
    out: Out = None,
    budget: Budget = None,
    engine: Engine = "local",
    workers: Workers = None,
    device: Device = "cpu",
    timeout: Timeout = None,
    without: Without = None,
    plugin: Plugins = None,
    quiet: Quiet = False,
    partition: Partition = None,
    time: Time = None,
    gpus: Gpus = None,
    task_minutes: TaskMinutes = None,
    sbatch: Sbatch = None,
    dry_run: DryRun = False,
    address: Address = None,
    cpus: Cpus = None,
    memory: Memory = None,
) -> None:
    """Run a study. The same command again computes what is missing; Ctrl-C keeps finished results.

    A detector that fails, exceeds --timeout or crashes its worker process is reported by name; the others continue.

    Example: farout run studies/clean_cifar10.yaml --budget quick
    """
    load_plugins(plugin)
    options = engine_options(
        partition=partition, time=time, gpus=gpus, task_minutes=task_minutes, sbatch=sbatch, address=address, cpus=cpus,
        memory=memory if engine == "ray" else None,
    )  # fmt: skip
    if dry_run:
        _show_scripts(_spec(study, budget).without(without or ()), out, workers, device, engine, options)
        return
    limit = None if engine == "ray" else memory
    with stoppable(), _workers_ahead(workers, device, plugin, engine, memory):
        spec = _spec(study, budget).without(without or ())
        result = _run(spec, out, workers, device, plugin, quiet, timeout, engine, options, limit)
    typer.echo(f"for the report: farout report {out or result.path}")


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for results.")] = Path("runs/demo"),
    workers: Workers = None,
    device: Device = "cpu",
    open_: Open = False,
    quiet: Quiet = False,
) -> None:
    """Run a complete study on the built-in SHAPES, without downloads: train a network, test all detectors, report.

    Example: farout demo --open
    """
    with stoppable(), _workers_ahead(workers, device):
        from farout.api.demo import study

        result = _run(study(), out, workers, device, None, quiet)
    typer.echo(f"report: {result.report(out)}")
    if open_:
        typer.launch(str(out / "report.html"))


def _workers_ahead(
    workers: int | None,
    device: str,
    plugins: list[Path] | None = None,
    engine: str = "local",
    memory: str | None = None,
) -> AbstractContextManager[None]:
    """Start the worker processes of a run on this machine, so that they import while this process does.

    With a budget of memory, their number is known only once this process has imported everything.
    """
    if engine != "local" or memory is not None:
        return nullcontext()
    from farout.study.engines.ahead import workers_ahead

    return workers_ahead(worker_count(workers, engine, device), plugin_paths(plugins))


def _run(
    spec: StudySpec,
    out: str | Path | None,
    workers: int | None,
    device: str,
    plugins: list[Path] | None,
    quiet: bool,
    timeout: float | None = None,
    engine: str = "local",
    options: dict[str, Any] | None = None,
    memory: str | None = None,
) -> Result:
    """Run a study with a progress bar, print a summary, and exit with 1 if something failed."""
    import farout
    from farout.progress import shown
    from farout.study.results import shortened

    folder = out or Path("runs") / spec.name
    try:
        with shown(quiet) as listener:
            result = farout.run(
                spec, folder, engine=engine, workers=worker_count(workers, engine, device), device=device,
                plugins=plugin_paths(plugins), timeout=timeout, options=options, memory=memory,
                progress=listener,
            )  # fmt: skip
    except KeyboardInterrupt:
        if engine == "slurm":
            offer_cancel(Path(folder))
        raise
    typer.echo(repr(result))
    outcome = result.outcome
    counts = f"{len(outcome.done)} results computed, {outcome.reused} there already, {len(outcome.failed)} failed"
    typer.echo(f"\n{counts}; in {folder}")
    for why in shortened(outcome.damaged):
        typer.echo(one_line(f"computed again: {why}"))
    for why in dict.fromkeys(why for cell, why in outcome.failed.items() if cell not in outcome.impossible):
        typer.echo(one_line(f"failed: {why}"), err=True)
    if outcome.impossible:
        typer.echo(f"not computed, since they require what failed: {len(outcome.impossible)} results", err=True)
    if outcome.failed:
        typer.echo(f"the tracebacks are in the report (farout report {folder}); the same command tries again", err=True)
        raise typer.Exit(1)
    return result


def _show_scripts(
    spec: StudySpec, out: str | None, workers: int | None, device: str, engine: str, options: dict[str, Any]
) -> None:
    """Print the batch scripts of a run."""
    if engine != "slurm":
        raise ValueError(f"--dry-run prints batch scripts and needs --engine slurm, got --engine {engine}")
    from farout.api.work import scripts

    folder = Path(out or Path("runs") / spec.name)
    texts = scripts(spec, folder, options, workers=worker_count(workers, engine), device=device)
    typer.echo("\n".join(texts) if texts else f"nothing is missing in {folder}")


def _spec(path: Path, budget: BudgetName | None) -> StudySpec:
    from farout.study.spec import StudySpec

    spec = StudySpec.read(path)
    return spec if budget is None else spec.model_copy(update={"budget": budget.value})
