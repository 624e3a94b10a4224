"""Export of a run for the Hugging Face Hub: a folder per model repository, and one for a score data set."""

from __future__ import annotations

from pathlib import Path

from farout.files import atomic_file, make_folder
from farout.report.content import Document
from farout.report.export import write_parquet
from farout.report.hugging_face import unique, write_card, write_results
from farout.study.results import Results
from farout.study.score_files import scored_rows, write_scores


def export_for_hub(results: Results, document: Document, folder: Path, repository: str) -> list[Path]:
    """Write `huggingface/models` and `huggingface/dataset` into the folder, ready to be pushed; return the paths."""
    home = make_folder(folder / "huggingface", folder)
    written = write_results(document, make_folder(home / "models", folder), repository, _date(results))
    return [*written, *_dataset(results, document, make_folder(home / "dataset", folder))]


def _dataset(results: Results, document: Document, folder: Path) -> list[Path]:
    """Write tables and scores as Parquet, and the card that names them."""
    paths = write_parquet(document, make_folder(folder / "tables", folder))
    configs = {
        f"table_{table.name}": (f"tables/{path.name}", len(table.lines))
        for table, path in zip(document.tables, paths, strict=True)
    }
    protocols = [protocol.name for protocol in results.protocols]
    for protocol, name in zip(protocols, unique(protocols), strict=True):
        if rows := scored_rows(results, protocol):
            paths.append(make_folder(folder / "scores", folder) / f"{name}.parquet")
            with atomic_file(paths[-1], folder) as temporary:
                configs[f"scores_{name}"] = f"scores/{name}.parquet", write_scores(results, rows, temporary)
    return [write_card(document, folder, configs), *paths]


def _date(results: Results) -> str:
    """Return the day of the last result, YYYY-MM-DD."""
    days = (
        str(results.store.facts(row.cell).get("at", ""))[:10] for row in results.rows if results.store.has(row.cell)
    )
    return max(days, default="")
