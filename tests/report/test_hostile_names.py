"""A run whose data sets, detectors, networks and errors have hostile names: text in page, tables and exports."""

from __future__ import annotations

import csv
import html
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from farout.api.hugging_face import export_for_hub
from farout.protocols.document import document
from farout.report.content import Document
from farout.report.export import export
from farout.report.html import write_report
from farout.report.notebook import notebook
from farout.study.results import Results
from helpers.written_runs import INLIERS, Outcome, Subject, write_run

LATEX = r"\input{/etc/passwd}\write18{ls} 100% a_b #1 $y$ ~ ^ & {z} --x `y` <a> | \\"
NAMES = [
    "<script>document.title='ran'</script>",
    "\"'><img src=x onerror=\"document.title='ran'\">",
    "</script><style>*{display:none}</style>",
    "w" * 300,
    "\u202eevil \u05e9\u05dc\u05d5\u05dd \u0627\u0644\u0633\u0644\u0627\u0645",
    "😀 🏴‍☠️ 中文",
    LATEX,
    "=cmd|'/c calc'!A1",
    "+1+1",
    "-2+3",
    "@SUM(A1:A9)",
    "\t=1+1",
    "＝1+1",
    "{{ 7 * 7 }}{% raw %}",
    "- a: !!python/object/apply:os.system ['ls']",
    "--- # null ~ yes",
    "]]></svg>&lt;b&gt;",
    "../../outside",
    "| a | b |\n|---|\n**bold** [x](javascript:alert(1))",
]
SCORES = np.arange(10.0)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Every name is a detector and an outlier set; every second detector fails on a set, with its name in the error."""
    rng = np.random.default_rng(0)
    missing: dict[str, Outcome] = dict.fromkeys(["far", *NAMES])
    outcomes: dict[Subject, dict[str, Outcome]] = {
        ("net", "0", name): {INLIERS: SCORES, "near": rng.random(9) * 10}
        | missing
        | ({"far": f"ValueError: {name}"} if place % 2 else {})
        for place, name in enumerate(NAMES)
    }
    outcomes["net", "0", NAMES[0]] |= {name: rng.random(9) * 10 for name in NAMES}
    return write_run(tmp_path_factory.mktemp("hostile") / "run", outcomes, name=NAMES[0])


@pytest.fixture(scope="module")
def content(results: Results) -> Document:
    return document(results)


@pytest.fixture(scope="module")
def folder(content: Document, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(content, folder)
    return folder


def flat(text: str) -> str:
    return " ".join(text.split())


def test_no_markup_of_a_name_is_in_the_page(folder: Path, content: Document) -> None:
    for source in ((folder / "report.html").read_text(encoding="utf-8"), notebook(content)):
        assert "<script>document.title" not in source
        assert "<img src=x" not in source
        assert "<style>*{display:none}" not in source
        for name in NAMES[:3]:
            assert html.escape(name).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in source
        assert "{{ 7 * 7 }}" in source


def test_csv_holds_every_name_and_no_formula(folder: Path) -> None:
    for path in (folder / "tables").glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            for cell in (cell for line in csv.reader(file) for cell in line):
                if re.match(r"[=+\-−@\t\r\n＝＋－＠]", cell):
                    float(cell)  # only numbers may start so
    frame = pd.read_csv(folder / "tables" / "clean.csv", keep_default_na=False)
    named = {cell.removeprefix("'") if cell.removeprefix("'") in NAMES else cell for cell in frame["detector"]}
    assert named == set(NAMES)
    assert "'=cmd|'/c calc'!A1" in set(frame["detector"])
    assert {cell.removeprefix("'") for cell in frame["outliers"]} >= set(NAMES)


COMMANDS = set(
    re.findall(
        r"\w+",
        "textbackslash textasciitilde textasciicircum textless textgreater textbar textasciigrave textperiodcentered "
        "textdagger textbf underline ldots to times geq leq toprule midrule bottomrule centering caption label begin "
        "end resizebox ifdim width linewidth else fi addtocounter",
    )
)
"""All commands that a table may hold."""


def test_latex_holds_only_known_commands_and_balanced_braces(folder: Path) -> None:
    for path in (folder / "tables").glob("*.tex"):
        source = path.read_text(encoding="utf-8")
        rest = re.sub(r"\\[&%$#_{}]|\\\\$", "", source, flags=re.M)
        assert set(re.findall(r"\\([A-Za-z]+|.)", rest)) <= COMMANDS
        rest = re.sub(r"\$(-|\\to|\\times|\\geq|\\leq|(\d\\times )?10\^\{-\d+\})\$", "", rest)
        body = "\n".join(line for line in rest.splitlines() if r"\begin{tabular}" not in line)
        assert not re.search(r"[%#$~^`|<>]", body)
        assert rest.count("{") == rest.count("}")
        assert len({line.count("&") for line in rest.splitlines() if "&" in line}) <= 1


def test_latex_of_a_name(folder: Path) -> None:
    escaped = (
        r"\textbackslash{}input\{/etc/passwd\}\textbackslash{}write18\{ls\} 100\% a\_b \#1 \$y\$ \textasciitilde{} "
        r"\textasciicircum{} \& \{z\} -{}-x \textasciigrave{}y\textasciigrave{} \textless{}a\textgreater{} \textbar{} "
        r"\textbackslash{}\textbackslash{}"
    )
    source = (folder / "tables" / "clean.tex").read_text(encoding="utf-8")
    assert escaped in source
    for name in NAMES[3:6]:
        assert name in source


def test_exports_hold_every_name_and_stay_in_their_folder(
    content: Document, results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farout.report.export.DPI", 30)
    out = tmp_path / "a" / "out"
    out.mkdir(parents=True)
    written = [*export(content, out, ["parquet", "svg", "png"]), *export_for_hub(results, content, out, "me/scores")]
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(written)
    assert all(path.resolve().is_relative_to(out.resolve()) for path in written)
    assert set(pd.read_parquet(out / "tables" / "clean.parquet")["detector"]) == set(NAMES)
    scores = pd.read_parquet(out / "huggingface" / "dataset" / "scores" / "clean.parquet")
    assert set(scores["detector"]) == set(NAMES)
    for path in out.rglob("*.svg"):
        assert "<script" not in path.read_text(encoding="utf-8")
        assert "onerror=" not in re.sub(r">[^<]*<|aria-label=\"[^\"]*\"", "", path.read_text(encoding="utf-8"))


def test_yaml_of_the_hub_is_text(content: Document, results: Results, tmp_path: Path) -> None:
    export_for_hub(results, content, tmp_path, "me/scores")
    files = sorted((tmp_path / "huggingface" / "models").rglob("*.yaml"))
    notes = [entry["notes"] for path in files for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]
    assert len(files) == len(NAMES)
    for name in NAMES:
        assert any(f"detector {name} " in note for note in notes)
    card = (tmp_path / "huggingface" / "dataset" / "README.md").read_text(encoding="utf-8")
    _, head, body = card.split("---\n", 2)
    assert yaml.safe_load(head)["pretty_name"] == f"farout scores: {NAMES[0]}"
    assert "<script" not in body
    assert "<img" not in body
    assert r"\*\*bold\*\*" in body


def test_the_page_in_a_browser_shows_names_as_text(folder: Path) -> None:
    sync_api: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    browser_path = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
    )
    if browser_path is None:
        pytest.skip("no chromium or chrome is installed")
    said: list[str] = []
    with sync_api.sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=browser_path, args=flags)
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((folder / "report.html").as_uri())
        page.evaluate("dispatchEvent(new Event('beforeprint'))")  # opens every part and draws every chart
        shown = flat(page.locator("#rows-clean").inner_text())
        assert [name for name in NAMES if flat(name) not in shown] == []
        failures = flat(page.locator("#failures").inner_text())
        assert [name for name in NAMES[1::2] if flat(f"ValueError: {name}") not in failures] == []
        assert page.locator("h1").inner_text() == NAMES[0]
        assert page.title() == f"{NAMES[0]} · farout"
        assert page.locator("img[src=x], body style").count() == 0
        assert page.locator("h1").is_visible()
        browser.close()
    assert said == []
