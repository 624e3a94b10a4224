"""The report: complete, harmless and self-contained, whatever things are called."""

from __future__ import annotations

import csv
import json
import re
from base64 import b64encode
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plotly.offline import get_plotlyjs

from farout.api import run as result
from farout.protocols.document import document
from farout.report import html
from farout.report.content import (
    Curve,
    Curves,
    Densities,
    Document,
    Gallery,
    HeatMap,
    Histograms,
    Scores,
    Sheet,
    Shown,
    Strip,
    Summary,
)
from farout.report.html import SCRIPTS, render, write_report
from farout.study.engines.run import Outcome as Ended
from farout.study.results import PLAN, Results
from helpers.written_runs import INLIERS, Outcome, Subject, write_run

A, B = ("net", "0", "a"), ("net", "0", "b")
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><b>&amp;</b>",
    "{{ 7 * 7 }}{% raw %}",
    "]]></svg>",
    "<!--<script>",
    "</script><script>alert(1)</script>",
    "%{x} &lt;b&gt;",
    "\u202eright to left\u202c",
    "🦜 = \\u003c",
]
TEXTS = ("network", "seed", "detector", "outliers")
VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Reads a page: its elements, its text, and whether every tag is closed in its turn."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.cells: list[str] = []
        self.scripts: list[str] = []
        self.charts: list[dict[str, Any]] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            if self.elements[-1][1].get("id") == "charts":
                self.charts = json.loads(data)
            else:
                self.scripts.append(data)
            return
        self.texts.append(data)
        if "td" in self.open:
            self.cells[-1] += data

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


def outcomes(**changes: Outcome) -> dict[Subject, dict[str, Outcome]]:
    """Two detectors on two sets, with these changes to the second."""
    rng = np.random.default_rng(0)
    first: dict[str, Outcome] = {
        INLIERS: rng.normal(size=30),
        "near": rng.normal(1, 1, 20),
        "far": rng.normal(5, 1, 20),
    }
    second: dict[str, Outcome] = {**{name: rng.permutation(scores) for name, scores in first.items()}, **changes}  # type: ignore[arg-type]
    return {A: first, B: second}


def check(source: str) -> Page:
    """The page, found to be balanced, with no scripts but its own and without anything from elsewhere."""
    page = Page(source)
    assert page.open == []
    assert not page.tags() & {"link", "iframe", "object", "embed", "base", "form"}
    policies = [str(attrs["content"]) for _, attrs in page.elements if "http-equiv" in attrs]
    hashes = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in page.scripts)
    assert policies == [f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}"]
    assert len(page.scripts) == 1 + len(SCRIPTS)  # the chart library, and the page's own
    assert page.scripts[0] == get_plotlyjs()
    for _, attrs in page.elements:
        assert not [key for key in attrs if key.startswith("on")]
        for key in attrs.keys() & {"src", "href", "xlink:href", "data", "action", "srcset"}:
            assert str(attrs[key]).startswith(("data:image/png;base64,", "#", "tables/")) or attrs[key] == "data:,"
    style = re.search(r"<style>(.*?)</style>", source, re.DOTALL)
    assert style is not None
    assert not re.search(r"url\(|@import", style[1])
    return page


def test_a_finished_run(tmp_path: Path) -> None:
    results = write_run(tmp_path, outcomes(), name="mine", spec={"name": "mine", "detectors": ["ä"]})
    source = render(document(results))
    page = check(source)
    words = "".join(page.texts)
    assert "mine" in words
    assert re.search(r"budget quick · protocols Clean evaluation ·\s+6 of 6 results · 0 missing · 0 failed", words)
    assert "results are missing" not in words
    assert "What failed" not in words
    assert [tag for tag, _ in page.elements].count("table") == 4  # the overview, two of clean, facts about the run
    assert [panel["title"] for panel in page.charts] == ["a", "b"]
    assert [tag for tag, _ in page.elements].count("img") == 3 * 8 + 1  # failures, and the enlarged picture
    assert "detectors:\n- ä\n" in words


def test_the_cells_of_the_tables_are_the_figures(tmp_path: Path) -> None:
    results = write_run(tmp_path, outcomes())
    found = document(results).summaries["clean"].tables[1].frame
    page = Page(render(document(results)))
    for _, line in found.iterrows():
        auroc, low, high = line[["auroc", "auroc_low", "auroc_high"]]
        assert f"{auroc:.3f} [{low:.3f}, {high:.3f}]" in page.cells


def test_the_best_is_bold_and_what_cannot_be_told_from_it_underlined(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inliers, near = rng.normal(size=200), rng.normal(1, 1, 200)
    sets: dict[Subject, dict[str, Outcome]] = {
        ("", "0", "best"): {INLIERS: inliers, "near": near},
        ("", "0", "alike"): {INLIERS: inliers, "near": near + 1e-9},
        ("", "0", "worse"): {INLIERS: inliers, "near": near - 1},
    }
    source = render(document(write_run(tmp_path, sets)))
    for mark, names in (("best", ["best", "best"]), ("tied", ["alike", "alike"])):  # at a glance, and all figures
        assert re.findall(rf'<tr><td>(\w+)</td>(?:<td>[^<]*</td>)*<td class="{mark}">', source) == names
    assert (
        source.count("Bold: the best detector of its network and outlier set; underlined: not significantly worse") == 2
    )


def test_plots_and_galleries_fit_a_narrow_page(tmp_path: Path) -> None:
    """Panels are no wider than the page, and row labels stand above images where there is no room beside them."""
    (style,) = re.findall(r"<style>(.*?)</style>", render(document(write_run(tmp_path, outcomes()))), re.DOTALL)
    assert "repeat(auto-fit, minmax(min(100%, var(--width)), 1fr))" in style
    narrow = style.partition("@media (max-width: 48rem)")[2]
    assert ".verdict, .sheet { grid-template-columns: minmax(0, 1fr); }" in narrow


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_never_markup(tmp_path: Path, name: str) -> None:
    sets = {"": outcomes()[A][INLIERS], name: outcomes()[A]["near"], "failed": f"Traceback\nValueError: {name}"}
    subject = (name, "0", name)
    results = write_run(tmp_path, {subject: sets, B: sets}, name=name, spec={"name": name})
    source = render(document(results))
    page = check(source)
    assert "<" not in name or name not in source.replace(page.scripts[0], "")
    assert f"Traceback\nValueError: {name}" in "".join(page.texts)
    assert name in page.cells
    assert not [tag for tag, attrs in page.elements if tag == "img" and "alt" not in attrs]


@pytest.mark.parametrize("name", HOSTILE)
def test_every_kind_of_figure_is_drawn_and_harmless(name: str) -> None:
    values = {name: np.linspace(0, 1, 5)}
    shown: list[Shown] = [
        Densities("d", name, name, {name: Scores(values[name], values)}),
        HeatMap("h", name, name, {name: pd.DataFrame([[0.25]], [name], [name])}),
        Histograms("o", name, name, {name: values}, (0, 1)),
        Curves("c", name, name, {name: {name: Curve(*[np.ones(2)] * 4)}}, (name, name)),
        Gallery("g", name, name, [Strip(name, np.zeros((1, 2, 2, 3), np.uint8), [name])]),
        Sheet("s", name, name, [Strip(name, np.zeros((1, 2, 2, 3), np.uint8), [name])]),
    ]
    page = check(page_of(shown))
    drawn = [attrs["aria-label"] for _, attrs in page.elements if attrs.get("class") == "plot"]
    assert drawn == [f"{name}: {name}"] * 4
    assert [panel["title"] for panel in page.charts] == [name] * 4
    pictures = [attrs["alt"] for tag, attrs in page.elements if tag == "img" and attrs["alt"]]
    assert pictures == [f"{name}, {name}, {name}, picture 1"] * 2
    assert [text.strip() for text in page.texts].count(name) >= 6 + 4 + 2 * 2 + 3  # titles, panels, pictures, legends


@pytest.mark.parametrize("name", HOSTILE)
def test_plotly_shows_names_as_text(name: str) -> None:
    """Plotly reads tags and entities in texts: they are escaped, once."""
    figure = HeatMap("h", "t", "c", {"p": pd.DataFrame([[0.25]], [name], [name])})
    (panel,) = check(page_of([figure])).charts
    assert unescape(panel["data"][0]["hovertext"][0][0]) == f"{name}<br>{name}: 0.250"
    for texts in (panel["layout"]["xaxis"]["ticktext"], panel["data"][0]["hovertext"][0]):
        assert not re.search("<(?!br>)", texts[0])


def test_a_figure_without_panels_says_so() -> None:
    shown: list[Shown] = [HeatMap("h", "Maps", "c", {}), Histograms("o", "Bars", "c", {}, (0, 1))]
    shown += [Curves("c", "Lines", "c", {}, ("x", "y")), Sheet("s", "Rows", "c", [])]
    page = check(page_of(shown))
    assert page.texts.count("No results yet.") == 4
    assert page.charts == []


def test_a_sheet_of_many_rows_is_folded() -> None:
    row = Strip("a", np.zeros((1, 2, 2, 3), np.uint8), ["rank 0"])
    shown: list[Shown] = [Sheet("s", "Short", "c", [row] * 6), Sheet("l", "Long", "c", [row] * 7)]
    page = check(page_of(shown))
    assert page.texts.count("rank 0") == 13
    assert "7 rows" in page.texts
    assert "6 rows" not in page.texts


def page_of(shown: list[Shown]) -> str:
    """A report that shows these figures."""
    return render(Document("mine", "quick", {"clean": Summary("Clean", [], shown)}, total=6))


def test_a_failure_is_shown_with_its_traceback(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "mine.py", line 3, in score\nValueError: 1 < 2 & "so"\n'
    page = check(render(document(write_run(tmp_path, outcomes(near=trace)))))
    words = "".join(page.texts)
    assert trace in words
    assert re.search(r"1 of 6 results are missing, 1 of\s+them because they failed \(see below\)", words)
    assert "score near by net: b" in page.texts


def test_missing_results_are_announced(tmp_path: Path) -> None:
    words = "".join(check(render(document(write_run(tmp_path, outcomes(near=None, far=None))))).texts)
    assert "2 of 6 results are missing. This report shows the others" in words
    assert "4 of 6 results" in " ".join(words.split())


def test_a_run_without_results(tmp_path: Path) -> None:
    nothing: dict[Subject, dict[str, Outcome]] = {A: {INLIERS: None, "near": None}}
    page = check(render(document(write_run(tmp_path, nothing))))
    words = "".join(page.texts)
    assert "No results yet." in words
    assert "2 of 2 results are missing" in words
    assert "thead" not in page.tags()  # the only table is that of facts about the run, which has no head
    assert page.charts == []


def test_writing_to_a_folder_or_a_file(tmp_path: Path) -> None:
    """Two reports in one folder keep a folder of tables each."""
    results = write_run(tmp_path / "run", outcomes())
    for given, written, folder in (
        ("new/deep", "new/deep/report.html", "tables"),
        ("other/page.html", "other/page.html", "page_tables"),
    ):
        path = write_report(document(results), tmp_path / given)
        assert path == tmp_path / written
        assert path.read_text(encoding="utf-8") == render(document(results), folder)
        with (path.parent / folder / "clean.csv").open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        frame = document(results).summaries["clean"].tables[1].frame
        for name in frame:
            kind = type(frame[name].iloc[0].item()) if name not in TEXTS else str
            assert [kind(line[name]) for line in lines] == frame[name].tolist()
        names = sorted(p.name for p in (path.parent / folder).iterdir())
        tables = [f"{name}.{end}" for name in ("clean", "clean_auroc", "overview") for end in ("csv", "tex")]
        assert names == sorted([*tables, "results.csv"])
        assert sorted(p.name for p in path.parent.iterdir()) == sorted([path.name, folder])


def test_scores_are_summed_up_once_for_text_tables_and_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Results] = []

    def counted(results: Results) -> Document:
        calls.append(results)
        return document(results)

    monkeypatch.setattr(result, "document", counted)
    write_run(tmp_path / "run", outcomes())
    found = result.Result(tmp_path / "run", Ended())
    assert (repr(found), len(found.table()), found.report(tmp_path).name) == (repr(found), 4, "report.html")
    assert calls == [found.results]


def test_a_report_that_cannot_be_drawn_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = write_run(tmp_path / "run", outcomes())
    path = write_report(document(results), tmp_path / "report.html")
    before = path.read_bytes()

    def fail(*args: Any) -> str:
        raise RuntimeError("out of ink")

    monkeypatch.setattr(html, "render", fail)
    with pytest.raises(RuntimeError, match="out of ink"):
        write_report(document(results), path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "run", "tables"]


def test_a_folder_that_holds_no_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no run \(no plan\.json\); give the folder that `farout run`"):
        Results(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "is damaged"), ("[]", "is damaged"), ("{}", "is damaged"), ('{"format": 9}', "has format 9, this version")],
)
def test_a_plan_that_cannot_be_read(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / PLAN).write_text(content)
    with pytest.raises(ValueError, match=said):
        Results(tmp_path)
