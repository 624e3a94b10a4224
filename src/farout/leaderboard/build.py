"""The site of a leaderboard: every submission is checked, and its report is written anew from its scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from farout.files import atomic_folder
from farout.leaderboard.check import LIMITS, NOT_RECOMPUTED, Checked, check
from farout.leaderboard.entry import entry_of
from farout.leaderboard.rerun import Rerun, read_rerun, result_path
from farout.leaderboard.submission import MANIFEST
from farout.report.board import write_board
from farout.report.content.board import Board, Entry, Refused
from farout.report.html import write_report

CSV = "board.csv"


def build(folders: Iterable[Path], out: Path, *, known: Path | None = None, reruns: Path | None = None) -> Board:
    """Write the site of these submissions, and return what it shows. An earlier site in `out` is replaced.

    folders: submissions, or folders of submissions. known: see `check`. reruns: folder with the outcomes of reruns;
    None = beside each submission. A submission with errors is listed as refused, without its figures.
    """
    _check_out(out)
    found = submissions_in(folders)
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(out) as site:
        entries: dict[str, Entry] = {}
        refused: list[Refused] = []
        for folder in found:
            checked = check(folder, known)
            rerun, problem = _rerun(folder, reruns)
            if problem or not checked.passed or checked.document is None:
                refused.append(Refused(folder.name, [*problem, *(checked.errors or ["it has no figures"])]))
                continue
            entry = entry_of(checked, rerun)
            entries[entry.identity] = entry  # the same submission twice is one
            _write_report(checked, site / entry.folder)
        board = Board(list(entries.values()), refused, (NOT_RECOMPUTED, LIMITS))
        write_board(board, site)
    return board


def submissions_in(folders: Iterable[Path]) -> list[Path]:
    """Return the submissions among these folders and directly in them. Raise if there is none."""
    found: list[Path] = []
    for folder in folders:
        if (folder / MANIFEST).is_file():
            found.append(folder)
        elif folder.is_dir():
            found += sorted(path for path in folder.iterdir() if (path / MANIFEST).is_file() and not path.is_symlink())
        else:
            raise FileNotFoundError(f"there is no folder {folder}; give submissions, or folders of submissions")
    if not found:
        raise FileNotFoundError(f"no submission (folder with {MANIFEST}) in {', '.join(map(str, folders))}")
    return found


def _check_out(out: Path) -> None:
    """Raise if the folder holds anything but an earlier site."""
    if out.exists() and not out.is_dir():
        raise FileExistsError(f"{out} is a file; choose another folder with --out")
    if out.exists() and any(out.iterdir()) and not (out / CSV).is_file():
        raise FileExistsError(f"{out} holds other files than a leaderboard; choose another folder with --out")


def _rerun(folder: Path, reruns: Path | None) -> tuple[Rerun | None, Sequence[str]]:
    try:
        return read_rerun(result_path(folder, reruns)), []
    except (ValueError, OSError) as error:
        return None, [f"the outcome of its rerun cannot be read: {error}"]


def _write_report(checked: Checked, folder: Path) -> None:
    assert checked.document is not None
    write_report(checked.document, folder)
