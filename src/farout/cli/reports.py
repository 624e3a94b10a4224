"""Verbs `report` and `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from farout.cli.options import Open, Plugins, Quiet, Run, load_plugins
from farout.terminal import one_line

if TYPE_CHECKING:
    from farout.report.content import Document
    from farout.study.results import Results

HUB = "huggingface"
"""Kind of export for the Hugging Face Hub."""


def report(
    folder: Run,
    out: Annotated[Path | None, typer.Option("--out", help="The HTML file.", show_default="FOLDER/report.html")] = None,
    export: Annotated[
        str | None,
        typer.Option(
            help="Also write these beside it, with commas between them. parquet: every table with all digits; png, "
            "svg, pdf: every figure at print quality; huggingface: .eval_results files for model repositories and a "
            "data set of all per-image scores with its card, ready to push to the Hugging Face Hub."
        ),
    ] = None,
    hub_dataset: Annotated[
        str | None,
        typer.Option(
            "--hub-dataset",
            metavar="OWNER/NAME",
            help="Name that the score data set will have on the Hub; needed for --export huggingface.",
        ),
    ] = None,
    open_: Open = False,
    plugin: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Write the report of a run, finished or not: one HTML file, tables as CSV and LaTeX beside it.

    Example: farout report runs/study --open
    """
    load_plugins(plugin)
    from farout.progress import shown
    from farout.protocols.document import document
    from farout.report.html import write_report
    from farout.study.remote.address import Remote, is_address
    from farout.study.remote.sending import send_report
    from farout.study.remote.session import readable
    from farout.study.results import Results

    kinds, repository = _exports(export, hub_dataset)
    sent = is_address(folder) and out is None
    if sent and kinds:
        raise ValueError("--export writes files beside the report; give its place with --out FOLDER/report.html")
    with shown(quiet):
        local = readable(folder)
        results = Results(local)
        content = document(results)
    path = write_report(content, out or local / "report.html")
    for why in results.damaged:
        typer.echo(one_line(f"left out: {why}"))
    if sent:
        send_report(Remote(folder), local)
    typer.echo(f"wrote {folder}/report.html, here {path}" if sent else f"wrote {path}")
    if kinds:
        files = _write_exports(results, content, path.parent, kinds, repository)
        typer.echo(f"wrote {files} tables, figures and other files to {path.parent}")
    if open_:
        typer.launch(str(path))


def _exports(export: str | None, hub_dataset: str | None) -> tuple[list[str], str]:
    """Return the kinds of exports, and the repository of the score data set. Raise before any long work."""
    from farout.report.export import FORMATS, check_formats
    from farout.report.hugging_face import check_repository

    kinds = [kind.strip() for kind in (export or "").split(",") if kind.strip()]
    check_formats([kind for kind in kinds if kind != HUB], (*FORMATS, HUB))
    if (HUB in kinds) != (hub_dataset is not None):
        raise ValueError(
            f"--export {HUB} and --hub-dataset belong together: OWNER/NAME is the name that the score data set will "
            "have on the Hub, such as me/cifar10-stress; nothing is uploaded"
        )
    return kinds, check_repository(hub_dataset) if hub_dataset is not None else ""


def _write_exports(results: Results, content: Document, folder: Path, kinds: list[str], repository: str) -> int:
    """Write exports and return the number of files."""
    from farout.report.export import export as write_files

    files = write_files(content, folder, [kind for kind in kinds if kind != HUB])
    if HUB in kinds:
        from farout.api.hugging_face import export_for_hub

        files += export_for_hub(results, content, folder, repository)
    return len(files)


def compare(
    first: Run,
    second: Annotated[str, typer.Argument(help="Output folder of another run, or its address.")],
) -> None:
    """Compare the detectors of two runs: a sentence per detector and stress, with the interval of the difference.

    Detectors with the same label are compared; if the runs share no label, every detector of one with those of the
    other.

    Example: farout compare runs/before runs/after
    """
    from farout.protocols.compare import compare as compared
    from farout.study.remote.session import readable
    from farout.study.results import Results

    typer.echo(repr(compared(Results(readable(first)), Results(readable(second)))))
