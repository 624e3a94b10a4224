"""Verbs `leaderboard pack`, `check`, `rerun` and `build`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farout.cli.ending import stoppable
from farout.cli.options import Device, Plugins, Quiet, Run, load_plugins
from farout.terminal import one_line

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Leaderboard whose figures are all computed from per-image scores.\n\n"
    "Submit: [bold]pack[/bold] a finished run into one folder, and [bold]check[/bold] it as we do. Judge: "
    "[bold]check[/bold] a folder, [bold]rerun[/bold] drawn images of it, [bold]build[/bold] the site.\n\n"
    "Exit codes: 0 done, 1 the submission has errors or other scores, 2 bad usage.",
)
Folder = Annotated[Path, typer.Argument(help="The submission: a folder that `pack` wrote.")]
KnownSets = Annotated[
    Path | None,
    typer.Option(
        "--known", help='JSON file with fingerprints of further image sets: {"cifar10:train": {"fingerprint": "…"}}.'
    ),
]
Reruns = Annotated[
    Path | None,
    typer.Option("--reruns", help="Folder of the outcomes of reruns.", show_default="beside each submission"),
]


@app.command()
def pack(
    run: Run,
    out: Annotated[Path, typer.Option("--out", help="The new folder.")],
    plugin: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Make a submission of a run: study, per-image scores, identities, checksums, versions and report in one folder.

    Weights stay where they are; their checksums go along. Paths of this machine are replaced by file names.

    Example: farout leaderboard pack runs/study --out submissions/my-detector
    """
    load_plugins(plugin)
    from farout.leaderboard import pack as write
    from farout.progress import shown
    from farout.study.remote.session import readable

    with stoppable(), shown(quiet):
        submission = write(readable(run), out)
    size = sum(facts.bytes for facts in submission.manifest.files.values())
    typer.echo(
        f"wrote {out}: {len(submission.manifest.files):,} files, {size / 1e6:.1f} MB, submission {submission.id}"
    )
    typer.echo(f"check it: farout leaderboard check {out}")


@app.command()
def check(folder: Folder, known: KnownSets = None, quiet: Quiet = False) -> None:
    """Check a submission: files, identities, image sets, scores, and every figure, computed again from the scores.

    Nothing in the folder is run, and nothing is written to it. It finds damage and inconsistency, not forgery.

    Example: farout leaderboard check submissions/my-detector
    """
    from farout.leaderboard import check as examine
    from farout.progress import shown

    with stoppable(), shown(quiet):
        checked = examine(folder, known)
    typer.echo(str(checked))
    if not checked.passed:
        raise typer.Exit(1)


@app.command()
def rerun(
    folder: Folder,
    sample: Annotated[int, typer.Option(min=1, help="Number of images, drawn from all results.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    tolerance: Annotated[
        float, typer.Option(min=0, help="Largest difference, in standard deviations of a detector's scores.")
    ] = 1e-3,
    models: Annotated[
        Path | None,
        typer.Option(help="Folder with weights, found by their checksums.", show_default="train and fit again"),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file", help="Where a file of the study is here: --file files/images.npz=PATH; may be repeated."
        ),
    ] = None,
    reruns: Reruns = None,
    device: Device = "cpu",
    plugin: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Compute the scores of drawn images again, from weights and data, and write FOLDER.rerun.json beside the folder.

    It opens what the study names: data sets are downloaded, and an adapter runs or calls what it is told to. Read the
    study first (in the report, or plan.json).

    Example: farout leaderboard rerun submissions/my-detector --sample 200 --models runs/study
    """
    load_plugins(plugin)
    from farout.leaderboard import rerun as again
    from farout.leaderboard.rerun import parsed_paths, result_path
    from farout.progress import shown

    with stoppable(), shown(quiet):
        outcome = again(
            folder, sample=sample, seed=seed, tolerance=tolerance, models=models, paths=parsed_paths(file),
            reruns=reruns, device=device,
        )  # fmt: skip
    typer.echo(str(outcome))
    typer.echo(f"wrote {result_path(folder, reruns)}")
    if not outcome.passed:
        raise typer.Exit(1)


@app.command()
def build(
    folders: Annotated[list[Path], typer.Argument(help="Submissions, or folders of submissions.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the site.")],
    known: KnownSets = None,
    reruns: Reruns = None,
    quiet: Quiet = False,
) -> None:
    """Check submissions and write the site: index.html, and a report for each, all computed from the scores.

    Submissions with errors are listed as refused, and the exit code is 1.

    Example: farout leaderboard build submissions --out site
    """
    from farout.leaderboard import build as write
    from farout.progress import shown

    with stoppable(), shown(quiet):
        board = write(folders, out, known=known, reruns=reruns)
    for one in board.refused:
        typer.echo(one_line(f"refused: {one.name}: {one.errors[0]}"), err=True)
    typer.echo(f"wrote {out / 'index.html'}: {len(board.entries)} submissions, {len(board.refused)} refused")
    if board.refused:
        raise typer.Exit(1)
