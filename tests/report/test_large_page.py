"""A large page, 50 detectors under 100 stresses, in a browser: all cells are there, and are sorted and filtered."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from farout.report.content import Document, Measured, Stress, Subject, Summary
from farout.report.html import write_report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome is installed"),
]
DETECTORS, STRESSES, PROTOCOLS = 50, 100, 5
VALUES = np.random.default_rng(0).permutation(DETECTORS * STRESSES).reshape(STRESSES, DETECTORS) % DETECTORS
"""Rank of every detector under every stress; ties occur."""
ROWS = "[...document.querySelectorAll('#rows-overview tbody tr')]"


def large() -> Document:
    """Return a document whose AUROC is 0.5 + rank / 100, so that the shown three digits keep the order."""
    summaries = {}
    for protocol in range(PROTOCOLS):
        places = range(protocol, STRESSES, PROTOCOLS)
        summaries[f"p{protocol}"] = Summary(f"Protocol {protocol}", stresses=[_stress(place) for place in places])
    return Document("large", "full", summaries, total=DETECTORS * STRESSES)


def _stress(place: int) -> Stress:
    values = enumerate((0.5 + VALUES[place] / 100).tolist())
    measured = [Measured(Subject("net", f"d{k:02d}"), "set", v, v - 0.02, v + 0.02, 1000, 1000) for k, v in values]
    return Stress(f"stress {place:03d}", "of outliers", measured, clean=place < PROTOCOLS)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = write_report(large(), tmp_path_factory.mktemp("large"))
    said: list[str] = []
    with sync_api.sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=BROWSER, args=flags)
        page = browser.new_page()
        page.set_default_timeout(120_000)  # a busy machine is slow, not wrong
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(path.as_uri())
        yield page
        browser.close()
    assert said == []


def test_every_cell_is_there(page: Any) -> None:
    assert page.evaluate(f"{ROWS}.map((row) => row.cells.length)") == [STRESSES + 1] * DETECTORS
    assert page.locator("#rows-overview td a").count() == DETECTORS * STRESSES


@pytest.mark.parametrize("place", [7, 93])
def test_a_click_on_a_head_sorts_the_rows(page: Any, place: int) -> None:
    expected = sorted((0.5 + VALUES[place] / 100).tolist(), reverse=True)
    head = page.locator(f"#rows-overview th:has-text('stress {place:03d}')")
    column = int(head.get_attribute("data-column"))
    shown = f"{ROWS}.map((row) => row.cells[{column}].textContent)"
    for order in (expected, expected[::-1]):
        head.locator("button").evaluate("one => one.click()")
        assert page.evaluate(shown) == [f"{value:.3f}" for value in order]
    names = page.evaluate(f"{ROWS}.map((row) => row.cells[0].textContent.trim())")
    ranks = [round(100 * (value - 0.5)) for value in expected[::-1]]
    assert [int(VALUES[place][int(name[1:])]) for name in names] == ranks
    assert len(set(names)) == DETECTORS


def test_a_filter_hides_the_others(page: Any) -> None:
    page.fill("[data-filters=rows-overview]", "d1")
    assert page.locator("#rows-overview tbody tr:visible").count() == 10
    assert page.locator("#overview output").inner_text() == "10 of 50 rows"
    page.fill("[data-filters=rows-overview]", "")
    assert page.locator("#rows-overview tbody tr:visible").count() == DETECTORS
