"""The command line. Heavy imports happen inside the verbs, so that --help answers at once."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from farout.registry import Registry
    from farout.result import Result
    from farout.study.spec import StudySpec

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Stress tests for out-of-distribution detectors.\n\n"
    "Start with [bold]farout demo[/bold]; then write a study (see studies/) and [bold]farout run[/bold] it.\n\n"
    "Exit codes: 0 done, 1 some results failed, 2 bad usage, 130 stopped with Ctrl-C (the same command goes on).",
)


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    if version:
        from farout import __version__

        typer.echo(f"farout {__version__}")
        raise typer.Exit


class Family(StrEnum):
    """What can be listed."""

    detectors = "detectors"
    networks = "networks"
    datasets = "datasets"
    protocols = "protocols"
    shifts = "shifts"
    variations = "variations"
    searches = "searches"
    adapters = "adapters"


class DrawnName(StrEnum):
    """Sets that are drawn on the spot."""

    shapes = "shapes"
    chars = "chars"


class FormName(StrEnum):
    """How images are stored."""

    png = "png"
    npz = "npz"


class SetName(StrEnum):
    """Kinds of shifts."""

    C = "C"
    A = "A"
    all = "all"


class LayoutName(StrEnum):
    """How shifted images are stored."""

    npz = "npz"
    npy = "npy"
    png = "png"
    jpeg = "jpeg"


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
Device = Annotated[str, typer.Option(help="Where networks run: cpu, cuda, cuda:1, …")]
Budget = Annotated[
    BudgetName | None, typer.Option(help="quick: minutes; standard: an hour or two; full: as in the papers.")
]
Open = Annotated[bool, typer.Option("--open", help="Show the report in a browser.")]


@app.command("list")
def list_(
    family: Annotated[Family, typer.Argument(help="What to list.")],
    plugin: Plugins = None,
) -> None:
    """Names that studies may use, with a line about each.

    Example: farout list detectors
    """
    _load_plugins(plugin)
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for name, about in _listed(family):
        table.add_row(f"[bold]{escape(name)}[/bold]", escape(about))
    Console().print(table)


@app.command()
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
    with _users_code():
        subject = named_object(detector) if ":" in detector or detector.endswith(".py") else catalog[detector]
    findings = farout.check(subject, farout.load(data) if data else None)
    for finding in findings:
        mark = typer.style("failed", fg="red") if finding.problem else typer.style("ok    ", fg="green")
        typer.echo(f"{mark} {finding.check}" + (f": {finding.problem}" if finding.problem else ""))
    if any(finding.problem for finding in findings):
        raise typer.Exit(1)


@app.command()
def plan(
    study: Annotated[Path, typer.Argument(help="The study, a YAML file.")],
    out: Out = None,
    budget: Budget = None,
    plugin: Plugins = None,
) -> None:
    """What a run would compute, and what it has already. Nothing is computed.

    Example: farout plan study.yaml --budget quick
    """
    _load_plugins(plugin)
    from farout.protocols import cuts
    from farout.protocols import plan as planned
    from farout.study.engine import closure, grouped
    from farout.study.store import Store
    from farout.study.study import from_spec

    spec = _spec(study, budget)
    store = Store(out or Path("runs") / spec.name)
    ready = from_spec(spec)
    cells = closure([entry.cell for entry in planned(ready)])
    missing = [cell for cell in cells if not store.has(cell.id)]
    for work in grouped(missing):
        typer.echo(f"{work.total_cost:>12,} images  {len(work.cells):>4} results  {work.cells[0].title}")
    for cut in [*ready.cuts, *cuts(ready)]:
        typer.echo(f"left out: {cut}")
    typer.echo(f"{len(missing)} of {len(cells)} results are missing at budget {spec.budget}")


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="The study, a YAML file.")],
    out: Out = None,
    budget: Budget = None,
    workers: Workers = None,
    device: Device = "cpu",
    plugin: Plugins = None,
) -> None:
    """Run a study. The same command again finishes what is missing; Ctrl-C keeps what is done.

    Example: farout run studies/clean_cifar10.yaml --budget quick
    """
    _load_plugins(plugin)
    result = _run(_spec(study, budget), out, workers, device, plugin)
    typer.echo(f"for the report: farout report {result.path}")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The folder that `farout run` wrote.")],
    out: Annotated[Path | None, typer.Option("--out", help="The HTML file.", show_default="FOLDER/report.html")] = None,
    open_: Open = False,
    plugin: Plugins = None,
) -> None:
    """Write the report of a run, finished or not: one HTML file, tables as CSV and LaTeX beside it.

    Example: farout report runs/study --open
    """
    _load_plugins(plugin)
    from farout.report.html import write_report
    from farout.study.results import Results

    path = write_report(Results(folder), out or folder / "report.html")
    typer.echo(f"wrote {path}")
    if open_:
        typer.launch(str(path))


@app.command()
def render(
    name: Annotated[DrawnName, typer.Argument(help="The set.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the images.")],
    split: Annotated[
        list[str] | None,
        typer.Option(
            help="Split, may be repeated: train, val, test/id, test/ood_hue, test/ood_size+rotation, …",
            show_default="train, val, test/id, test/ood_hue, test/ood_cls, test/ood_both",
        ),
    ] = None,
    form: Annotated[
        FormName, typer.Option("--format", help="PNG files by class, or one .npz per split.")
    ] = FormName.png,
    side: Annotated[int, typer.Option(min=8, help="Width and height in pixels.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the configurations.")] = 1,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many images per split.", show_default="all")
    ] = None,
    font: Annotated[
        Path | None, typer.Option(help="A TrueType file, for chars.", show_default="DejaVu Sans Mono")
    ] = None,
) -> None:
    """Write SHAPES or CHARS to disk, with the table every image was drawn from.

    The same command again goes on where it was stopped (an .npz file starts over). `farout.load` reads what it
    writes: the folder of PNG files by its splits train, val and test (classes in the alphabet's order), OUT/ood_hue,
    OUT/test.npz (classes in the paper's order), or a table, OUT/test.parquet, from which it draws again (give side and
    font).

    Example: farout render shapes --out shapes64 --split test/id --side 64
    """
    from farout.data.drawn import OUTLIER_SPLITS
    from farout.data.drawn import drawn as make
    from farout.data.export import export
    from farout.watch import watching

    splits = list(dict.fromkeys(split or ["train", "val", "test/id", *OUTLIER_SPLITS]))
    sets = {each: make(name.value, each, seed=seed, side=side, font=font, limit=limit) for each in splits}
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot write images to {out}: {error.strerror}; choose another folder with --out") from error
    written = []
    with _stoppable(), watching() as bar:
        bar.total(sum(map(len, sets.values())))
        for each, images in sets.items():
            folder = out / ("test" if each == "test/id" else each.removeprefix("test/"))
            written.append((len(images), export(images, folder, form.value, partial(bar.advance, title=each))))
    for count, path in written:
        typer.echo(f"{count:>9,} images  {path}")


@app.command()
def corrupt(
    images: Annotated[str, typer.Argument(metavar="INPUT", help="The images: a name, an .npz file or a folder.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the set.")],
    kind: Annotated[
        SetName | None,
        typer.Option(
            "--set",
            help="C: all corruptions; A: all augmentations; all: both, and the images as they are.",
            show_default="all, unless --shift is given",
        ),
    ] = None,
    shift: Annotated[
        list[str] | None, typer.Option(help="A shift by name (farout list shifts), may be repeated.")
    ] = None,
    severity: Annotated[
        list[int] | None,
        typer.Option(min=1, max=5, help="Of corruptions, may be repeated.", show_default="1 2 3 4 5"),
    ] = None,
    form: Annotated[
        LayoutName,
        typer.Option("--format", help="npz, npy: one array per shift; png, jpeg (quality 85): one file per image."),
    ] = LayoutName.npz,
    split: Annotated[str, typer.Option(help="Split of INPUT.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many images.", show_default="all")] = None,
    side: Annotated[
        int | None, typer.Option(min=1, help="Bring images to this size.", show_default="as they are")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is random about the shifts.")] = 0,
    frost_dir: Annotated[
        Path | None, typer.Option(help="Photographs of frost.", show_default="procedural frost")
    ] = None,
    workers: Workers = None,
    plugin: Plugins = None,
) -> None:
    """Write images under corruptions and augmentations to disk: an "-R" set, as CIFAR-10-R, with a manifest.json.

    The same command again goes on where it was stopped; another one adds shifts of the same images, seed and format.

    npz: farout.load("OUT/fog.npz") reads all images at severity 1, then all at severity 2 and so on.

    png, jpeg: farout.load("OUT/fog/3") reads severity 3, OUT/flip and OUT/clean have none; classes in the alphabet's
    order.

    npy: OUT/fog.npy and OUT/labels.npy as in CIFAR-10-C; farout.ImageSet.from_arrays(images, labels[:len(images)]).

    Files are named as in the published sets: jpeg_compression, elastic_transform.

    Example: farout corrupt cifar10 --out cifar10-r --set all
    """
    _load_plugins(plugin)
    import farout
    from farout.data import realistic
    from farout.shifts.choosing import choose
    from farout.shifts.corruption import SEVERITIES
    from farout.watch import watching

    chosen = kind.value if kind else None if shift else "all"
    shifts = choose(chosen, shift or [], severity or SEVERITIES, frost_dir)
    source = farout.load(images, split, limit=limit, **({} if side is None else {"side": side}))
    count = workers if workers is not None else os.cpu_count() or 1
    paths = tuple(str(path.resolve()) for path in plugin or ())
    with _stoppable(), watching() as bar:
        facts = realistic.write(
            source, out, shifts, clean=chosen == "all", form=form.value, seed=seed, workers=count, plugins=paths,
            watcher=bar,
        )  # fmt: skip
    for entry in facts["shifts"].values():
        state = "" if entry["finished"] else "  not finished"
        typer.echo(f"{entry['images']:>9,} images  {out / entry['place']}{state}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for results.")] = Path("runs/demo"),
    workers: Workers = None,
    device: Device = "cpu",
    open_: Open = False,
) -> None:
    """Everything on the built-in SHAPES, without downloads: train a network, fit every detector, test, search, report.

    Example: farout demo --open
    """
    from farout.demo import study

    result = _run(study(), out, workers, device, None)
    typer.echo(f"report: {result.report(out)}")
    if open_:
        typer.launch(str(out / "report.html"))


def _run(spec: StudySpec, out: Path | None, workers: int | None, device: str, plugins: list[Path] | None) -> Result:
    """Run with a progress bar, say how it went, exit with 1 if something failed."""
    import farout
    from farout.watch import watching

    folder = out or Path("runs") / spec.name
    count = workers if workers is not None else os.cpu_count() or 1
    paths = tuple(str(path.resolve()) for path in plugins or ())
    with _stoppable(), watching() as bar:
        result = farout.run(spec, folder, workers=count, device=device, plugins=paths, watcher=bar)
    typer.echo(repr(result))
    outcome = result.outcome
    counts = f"{len(outcome.done)} results computed, {outcome.reused} there already, {len(outcome.failed)} failed"
    typer.echo(f"\n{counts}; in {folder}")
    for why in dict.fromkeys(outcome.failed.values()):
        typer.echo(f"failed: {why}", err=True)
    if outcome.failed:
        typer.echo(f"the tracebacks are in the report (farout report {folder}); the same command tries again", err=True)
        raise typer.Exit(1)
    return result


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C and SIGTERM end in a word and an exit code."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        typer.echo("stopped; what was finished is kept, the same command goes on from there", err=True)
        raise typer.Exit(143 if isinstance(stopped, Terminated) else 130) from None


def _spec(path: Path, budget: BudgetName | None) -> StudySpec:
    from farout.study.spec import StudySpec

    spec = StudySpec.read(path)
    return spec if budget is None else spec.model_copy(update={"budget": budget.value})


def _load_plugins(paths: list[Path] | None) -> None:
    if paths:
        from farout.plugins import load_plugin

        with _users_code():
            for path in paths:
                load_plugin(path)


@contextmanager
def _users_code() -> Iterator[None]:
    """Whatever goes wrong in a file of the user's is bad usage, and no trouble of ours."""
    try:
        yield
    except (ValueError, OSError):
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = "" if isinstance(error, SyntaxError) else f" ({last.filename}, line {last.lineno})"
        raise ValueError(f"the file cannot be imported: {type(error).__name__}: {error}{place}") from error


def _listed(family: Family) -> list[tuple[str, str]]:
    """Names of a family with the first line of each one's docstring."""
    from farout.adapters import ADAPTERS
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
        "variations": VARIATIONS,
        "searches": SEARCHES,
    }
    registry = registries[family.value]
    return [(name, (registry[name].__doc__ or "").strip().split("\n")[0]) for name in registry.names()]


class Terminated(KeyboardInterrupt):
    """SIGTERM: stop as tidily as on Ctrl-C."""


def _terminate(*_: object) -> None:
    raise Terminated


def main() -> None:
    """Entry point: errors of the user's making end in one clear message and exit code 2."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads crawl when another job shares the cores
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app(prog_name="farout")
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        if os.environ.get("FAROUT_DEBUG"):
            raise
        typer.echo(f"error: {error}\n(FAROUT_DEBUG=1 shows where it came from)", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
