"""Tables as text, CSV and LaTeX."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farout.protocols.document import document
from farout.report.content import COUNT, INTERVAL, LABEL, VALUE, Column, Table
from farout.report.latex import latex
from farout.report.readable import MARKED, readable
from farout.report.tables import text, write_tables
from helpers.written_runs import INLIERS, Outcome, Subject, write_run

A, B = ("net", "0", "a"), ("net", "0", "b")
DETECTOR, AUROC = Column("detector", LABEL), Column("auroc", INTERVAL)
NETWORK, SEED = Column("network", LABEL, varying=True), Column("seed", LABEL, varying=True)
P_VALUE = Column("p_vs_best", VALUE, powers=True)
NAN = float("nan")


def table(columns: dict[Column, list[Any]], **changes: Any) -> Table:
    """A table of these columns."""
    lines = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return Table(**{"name": "t", "title": "Title", "caption": "Caption.", "lines": lines} | changes)


def shown(columns: dict[Column, list[Any]]) -> dict[str, list[str]]:
    """The columns as people see them."""
    return {column.name: printed for column, printed in readable(table(columns)).items()}


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0.5, "0.500"),
        (0.0, "0.000"),
        (1.0, "1.000"),
        (0.99951, "1.000"),
        (1e-3, "0.001"),
        (4.4e-4, "0.000"),
        (6e-4, "0.001"),
        (-0.25, "-0.250"),
        (float("nan"), "–"),
    ],
)
def test_a_value_as_printed(value: float, printed: str) -> None:
    assert shown({Column("x", VALUE): [value]}) == {"x": [printed]}


@pytest.mark.parametrize(("cell", "printed"), [(12, "12"), ("word", "word"), (NAN, "–"), ("", "")])
def test_a_count_and_a_label_as_printed(cell: Any, printed: str) -> None:
    for kind in (COUNT, LABEL):
        assert shown({Column("x", kind): [cell]}) == {"x": [printed]}


@pytest.mark.parametrize(("value", "printed"), [(4.4e-4, "4e-04"), (1e-300, "1e-300"), (0.0, "0.000"), (0.04, "0.040")])
def test_a_p_value_keeps_its_order(value: float, printed: str) -> None:
    assert shown({P_VALUE: [value]}) == {"p_vs_best": [printed]}


def test_the_type_of_a_column_counts_not_its_name() -> None:
    """Labels of users that look like columns of ours: a p-value, a bound, a column that may be left out."""
    found = shown({Column(name, VALUE): [4.4e-4, 4.4e-4] for name in ("p_vs_best", "auroc_low", "network", "seed")})
    assert found == {key: ["0.000", "0.000"] for key in ("p_vs_best", "auroc_low", "network", "seed")}


def test_an_interval_stands_beside_its_value() -> None:
    found = shown({AUROC: [(0.75, 0.7, 0.8), (0.5, 0.41, 0.59)]})
    assert found == {"auroc": ["0.750 [0.700, 0.800]", "0.500 [0.410, 0.590]"]}


def test_a_missing_value_has_no_interval() -> None:
    lines = [{AUROC: (0.75, 0.7, 0.8)}, {AUROC: (NAN, NAN, NAN)}, {}]
    assert readable(table({}, lines=lines)) == {AUROC: ["0.750 [0.700, 0.800]", "–", "–"]}


def test_network_and_seed_are_shown_where_they_differ() -> None:
    same = shown({NETWORK: ["n", "n"], SEED: ["0", "0"], DETECTOR: ["a", "a"]})
    assert same == {"detector": ["a", "a"]}
    differ = shown({NETWORK: ["n", "m"], SEED: ["0", "1"], DETECTOR: ["a", "a"]})
    assert differ == {"network": ["n", "m"], "seed": ["0", "1"], "detector": ["a", "a"]}


def test_csv_keeps_every_digit_and_every_name(tmp_path: Path) -> None:
    numbers = [0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0]
    names = ["plain", 'with "quotes"', "with, comma", "two\nlines", "ünï, 中"]
    counts = [1, 2, 3, 4, 2**53 + 1]
    whole = table({Column("name", LABEL): names, Column("value", VALUE): numbers, Column("n", COUNT): counts})
    found, tex = write_tables([whole], tmp_path / "tables")
    assert (found.name, tex.name) == ("t.csv", "t.tex")
    with found.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [repr(float(line["value"])) for line in lines] == list(map(repr, numbers))
    assert [line["name"] for line in lines] == names
    assert [int(line["n"]) for line in lines] == counts
    assert tex.read_text(encoding="utf-8") == latex(whole)


def test_latex_is_a_booktabs_table() -> None:
    assert latex(table({DETECTOR: ["a"], AUROC: [(0.75, 0.7, 0.8)]})).splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{Title. Caption.}",
        r"\label{tab:t}",
        r"\begin{tabular}{ll}",
        r"\toprule",
        r"detector & auroc \\",
        r"\midrule",
        r"a & 0.750 [0.700, 0.800] \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_latex_shrinks_a_table_that_is_wider_than_a_line() -> None:
    """Cells of 20 characters with a gap of two: three of them fit on a line of 85, four do not."""
    cell = [(0.75, 0.7, 0.8)]
    columns = {Column(f"{number}", INTERVAL): cell for number in range(4)}
    wide = latex(table(columns)).splitlines()
    assert wide[4] == r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{\begin{tabular}{llll}"
    assert wide[-2:] == [r"\end{tabular}}", r"\end{table}"]
    columns.popitem()
    assert "resizebox" not in latex(table(columns))


def test_latex_escapes_what_is_special_to_it() -> None:
    name = r"\input{x} 100% a_b #1 $y$ ~ ^ & {z}"
    source = latex(table({Column(name, LABEL): [name], Column("n_x", VALUE): [NAN]}, title=name, caption=name))
    escaped = (
        r"\textbackslash{}input\{x\} 100\% a\_b \#1 \$y\$ \textasciitilde{} \textasciicircum{} \& \{z\}"
    )  # fmt: skip
    assert source.count(escaped) == 4
    assert rf"{escaped} & n\_x \\" in source
    assert rf"{escaped} & -- \\" in source
    rest = source.replace(escaped, "")
    assert not re.search(r"(?<!\\)[%#$~^]", rest)


def test_latex_marks_the_best_and_writes_powers_of_ten() -> None:
    columns = {
        DETECTOR: ["a", "b", "[c]"], AUROC: [(0.75, 0.7, 0.8), (0.74, 0.7, 0.8), (0.5, 0.4, 0.6)],
        P_VALUE: [1.0, 0.2, 4.4e-7],
    }  # fmt: skip
    source = latex(table(columns, name="clean auroc/x", marks={AUROC: ["best", "tied", ""]})).splitlines()
    assert source[2].endswith(f"{MARKED}}}")
    assert source[3] == r"\label{tab:clean-auroc-x}"
    assert source[8:11] == [
        r"a & \textbf{0.750} [0.700, 0.800] & 1.000 \\",
        r"b & \underline{0.740} [0.700, 0.800] & 0.200 \\",
        r"{}[c] & 0.500 [0.400, 0.600] & $4\times 10^{-7}$ \\",
    ]


@pytest.mark.parametrize(("p", "printed"), [(1e-4, "$10^{-4}$"), (3e-300, r"$3\times 10^{-300}$"), (0.001, "0.001")])
def test_latex_of_a_small_p_value(p: float, printed: str) -> None:
    assert f"{printed} \\\\" in latex(table({DETECTOR: ["a"], P_VALUE: [p]}))


def run(tmp_path: Path, **changes: Outcome) -> str:
    """The text of a run of two detectors on two sets, with these changes to the second."""
    scores = {INLIERS: np.arange(10.0), "near": np.arange(5, 15.0), "far": np.arange(20, 30.0)}
    other: dict[str, Outcome] = {INLIERS: np.arange(10.0), "near": np.arange(10.0), "far": np.arange(10.0), **changes}
    outcomes: dict[Subject, dict[str, Outcome]] = {A: dict(scores), B: other}
    return text(document(write_run(tmp_path, outcomes)))


def test_text_is_a_table_with_intervals(tmp_path: Path) -> None:
    lines = run(tmp_path).splitlines()
    assert lines[0] == "written (budget quick)"
    assert lines[2] == "AUROC by outlier set"
    assert lines[3].split() == ["detector", "near", "far", "mean"]
    assert re.fullmatch(r" +a 0\.875 \[0\.\d{3}, 0\.\d{3}\] 1\.000 \[0\.\d{3}, 1\.000\] 0\.938", lines[4])
    assert re.fullmatch(r" +b 0\.500 \[0\.\d{3}, 0\.\d{3}\] 0\.500 \[0\.\d{3}, 0\.\d{3}\] 0\.500", lines[5])
    assert len(lines) == 6


def test_text_says_what_is_missing(tmp_path: Path) -> None:
    lines = run(tmp_path, far=None).splitlines()
    assert lines[-1] == "1 of 6 results are missing, 0 of them failed"
    assert [line.split()[0] for line in lines[4:6]] == ["a", "b"]
    assert lines[5].split()[-2:] == ["–", "–"]


FRAMES = 'Traceback (most recent call last):\n  File "mine.py", line 3, in score\n    dry(camera)\n'


@pytest.mark.parametrize(
    "trace",
    [
        "ValueError: the camera is wet",
        f"{FRAMES}ValueError: the camera is wet\n",
        f"{FRAMES}ValueError: the camera is wet\nand\n  this is a note\nbesides\n",
        f"{FRAMES}OSError: rain\n\nDuring handling of the above …\n\n{FRAMES}ValueError: the camera is wet\n",
    ],
)
def test_text_says_why_something_failed(tmp_path: Path, trace: str) -> None:
    lines = run(tmp_path, near=trace, far=trace).splitlines()
    place = " (mine.py, line 3)" if FRAMES in trace else ""
    assert lines[-2:] == ["2 of 6 results are missing, 2 of them failed:", f"  ValueError: the camera is wet{place}"]


def test_text_names_the_first_reasons_only(tmp_path: Path) -> None:
    many: dict[Subject, dict[str, Outcome]] = {
        ("net", "0", f"d{number}"): {INLIERS: f"ValueError: {number}"} for number in range(8)
    }
    lines = text(document(write_run(tmp_path, many))).splitlines()
    assert lines[-7:] == [
        "8 of 8 results are missing, 8 of them failed:",
        *(f"  ValueError: {number}" for number in range(5)),
        "  and 3 other reasons",
    ]


def test_a_run_without_results_has_no_tables(tmp_path: Path) -> None:
    nothing: dict[Subject, dict[str, Outcome]] = {A: {INLIERS: None, "near": None}}
    results = write_run(tmp_path, nothing)
    assert document(results).tables == []
    assert text(document(results)).splitlines() == [
        "written (budget quick)", "", "2 of 2 results are missing, 0 of them failed",
    ]  # fmt: skip
