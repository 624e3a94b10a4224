"""The output in a notebook: verdicts, table and figures; bounded, self-contained, and without errors in a browser."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farout.report import notebook as output
from farout.report.content import Document, Measured, Stress, Subject, Summary
from farout.report.content.verdicts import verdicts
from farout.report.notebook import notebook
from helpers.report_pages import report

HOSTILE = "<script>document.title='ran'</script>\"'><img src=y onerror=\"document.title='ran'\">"


@pytest.fixture(autouse=True)
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "DPI", 30)


def test_verdicts_in_words_table_and_figure() -> None:
    document = report()
    shown = notebook(document)
    sentences = [sentence for one in verdicts(document.overview) for sentence in one.sentences]
    assert len(sentences) > 5
    assert [sentence for sentence in sentences if sentence not in shown.replace("&#39;", "'")] == []
    for value in ("0.900", "0.800", "0.700", "0.400", "0.100", "0.650", "0.300"):
        assert f">{value}</td>" in shown
    assert shown.count("data:image/png;base64,") == 1
    assert "11 more figures, all" in shown


def test_it_loads_and_runs_nothing() -> None:
    shown = notebook(report(HOSTILE))
    assert not re.search(r"<script|<img src=y|<iframe|<link|https?://|@import|url\(", shown)
    assert "&lt;script&gt;" in shown
    assert set(re.findall(r"src=\"([a-z]+:[a-z/]+)", shown)) == {"data:image/png"}


def test_its_styles_apply_to_it_alone() -> None:
    (styles,) = re.findall(r"(?s)<style>(.*?)</style>", notebook(report()))
    selectors = [one.strip() for group in re.findall(r"([^{}]+)\{", styles) for one in group.split(",")]
    assert len(selectors) > 10
    assert [one for one in selectors if not one.startswith(".farout")] == []


def test_the_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "LARGEST", 500_000)
    rng = np.random.default_rng(0)
    stresses = [
        Stress(f"stress {n}", "of images", [
            Measured(Subject("net", f"detector {d}"), "set", v, v - 0.01, v + 0.01, 100, 100)
            for d, v in enumerate(rng.random(60))
        ], clean=n == 0)
        for n in range(120)
    ]  # fmt: skip
    shown = notebook(Document("large", "quick", {"one": Summary("One", [], [], stresses)}, 1))
    assert len(shown) < 2 * 500_000
    assert "too large for a notebook" in shown
    assert "The other 55 detectors" in shown
    assert "And 30 more, in the report." in shown


def test_figures_that_do_not_fit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "LARGEST", 100)
    shown = notebook(report())
    assert "data:image" not in shown
    assert "12 more figures, all" in shown


def test_a_run_without_results() -> None:
    shown = notebook(Document("run", "quick", {"one": Summary("One")}, total=3, missing=3, failed=1))
    assert "0 of 3 results · 3 missing, 1 of them failed" in shown
    assert "No results yet." in shown


@pytest.mark.parametrize("name", ["alpha", HOSTILE])
def test_in_the_sandbox_of_a_notebook(tmp_path: Path, name: str) -> None:
    """Set the output as the content of an element, beside other outputs, under a strict policy, like JupyterLab."""
    sync_api: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    browser_path = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
    )
    if browser_path is None:
        pytest.skip("no chromium or chrome is installed")
    (tmp_path / "lab.html").write_text(
        "<!doctype html><meta charset=utf-8><meta http-equiv=Content-Security-Policy content=\"default-src 'none'; "
        "img-src data:; style-src 'unsafe-inline'\"><title>lab</title>"
        "<table id=mine><td>mine</table><div id=cell></div>"
    )
    said: list[str] = []
    with sync_api.sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=browser_path, args=flags)
        page = browser.new_page(viewport={"width": 700, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith(("file:", "data:")) else said.append(one.url))
        page.goto((tmp_path / "lab.html").as_uri())
        padding = "getComputedStyle(document.querySelector('#mine td')).padding"
        before = page.evaluate(padding)
        page.evaluate("text => { document.getElementById('cell').innerHTML = text; }", notebook(report(name)))
        page.locator("#cell img").wait_for()
        assert page.locator("#cell img").evaluate("one => one.decode().then(() => one.naturalWidth)") > 50
        assert page.locator("#cell .verdict").count() == 3
        assert name in page.locator("#cell .verdict").first.inner_text()
        assert page.locator("#cell .cells tbody tr").count() == 3
        assert page.locator("img[src=y]").count() == 0
        assert (page.title(), page.evaluate(padding)) == ("lab", before)
        assert page.evaluate("document.documentElement.scrollWidth") <= 700
        browser.close()
    assert said == []
