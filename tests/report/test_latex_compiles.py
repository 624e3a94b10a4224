"""Exported LaTeX tables are set by a real TeX, without errors, and print what they should."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from farout.report.content import INTERVAL, LABEL, VALUE, Column, Document, Summary, Table
from farout.report.html import write_all_tables
from helpers.report_pages import report

PDFLATEX, PDFTOTEXT = shutil.which("pdflatex"), shutil.which("pdftotext")
PACKAGES = r"\usepackage[T1]{fontenc}\usepackage{booktabs}\usepackage{graphicx}"
HOSTILE = r"\input{/etc/passwd}\write18{ls} 100% a_b #1 $y$ ~ ^ & {z} --x `y` <a> | \\ ]["
SYMBOLS = " ".join(
    map(
        chr,
        [*range(0x3B1, 0x3BF), 0x3C0, 0x3C1, *range(0x3C3, 0x3CA), *map(ord, "ΓΔΘΛΞΠΣΥΦΨΩ∞≈≠√∈∪∂∇←→≥≤×−–…·†½²±°éüß")],
    )
)
"""Greek letters and the symbols of captions and settings."""

pytestmark = pytest.mark.skipif(PDFLATEX is None, reason="there is no pdflatex")


def compiled(folder: Path) -> tuple[int, str]:
    """Set all tables of a folder in one document; return the exit code and what TeX says."""
    names = sorted(path.name for path in folder.glob("*.tex"))
    body = "\n".join(rf"\input{{{name}}}\clearpage" for name in names)
    (folder / "all.tex").write_text(rf"\documentclass{{article}}{PACKAGES}\begin{{document}}{body}\end{{document}}")
    command = [str(PDFLATEX), "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def printed(folder: Path) -> str:
    """The text of the pages, without spaces: those of formulas depend on the program."""
    pages = subprocess.run([str(PDFTOTEXT), "-layout", "all.pdf", "-"], cwd=folder, capture_output=True, check=True)
    return "".join(pages.stdout.decode().split())


def test_tables_with_hostile_names_and_symbols(tmp_path: Path) -> None:
    columns = [Column("detector", LABEL), Column("auroc", INTERVAL), Column("p", VALUE, powers=True)]
    lines = [dict(zip(columns, (name, (0.5, 0.4, 0.6), 1e-9), strict=True)) for name in (HOSTILE, SYMBOLS, "w" * 300)]
    table = Table("symbols", SYMBOLS, f"{HOSTILE} {SYMBOLS}", lines)
    content = report(HOSTILE)
    content.summaries["third"] = Summary("Third", [table])
    write_all_tables(content, tmp_path)
    code, said = compiled(tmp_path)
    assert code == 0, said[-2000:]
    assert "Overfull \\hbox" not in said
    assert "Float too large" not in said


@pytest.mark.skipif(PDFTOTEXT is None, reason="there is no pdftotext")
def test_no_row_of_a_long_table_is_lost(tmp_path: Path) -> None:
    detector, wide = Column("detector", LABEL), Column("settings", LABEL)
    lines = [{detector: f"row{number:03d}", wide: "w" * 120} for number in range(100)]
    tables = [Table("long", "Title", "Caption. " * 60, lines), Table("next", "Next", "", lines[:1])]
    write_all_tables(Document("run", "quick", {"one": Summary("One", tables)}, total=1), tmp_path)
    code, said = compiled(tmp_path)
    assert code == 0, said[-2000:]
    assert "Float too large" not in said
    text = printed(tmp_path)
    assert [f"row{number:03d}" in text for number in range(100)] == [True] * 100
    assert text.count("Table1:Title") == 4
    assert text.count("Table2:Next") == 1


@pytest.mark.skipif(PDFTOTEXT is None, reason="there is no pdftotext")
def test_what_is_printed(tmp_path: Path) -> None:
    detector, auroc = Column("detector", LABEL), Column("auroc", INTERVAL)
    lines = [{detector: HOSTILE, auroc: (0.8125, 0.7, 0.9)}, {detector: "τ→∞", auroc: (0.25, 0.125, 0.5)}]
    content = Document("run", "quick", {"one": Summary("One", [Table("one", "Title", "Kendall's τ.", lines)])}, total=1)
    write_all_tables(content, tmp_path)
    code, said = compiled(tmp_path)
    assert code == 0, said[-2000:]
    text = printed(tmp_path)
    assert "Title.Kendall'sτ." in text
    assert f"{''.join(HOSTILE.split())}0.812[0.700,0.900]" in text
    assert "τ→∞0.250[0.125,0.500]" in text
