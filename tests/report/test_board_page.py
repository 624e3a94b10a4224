"""The page of the leaderboard, in a browser if there is one: sorting, filters, hostile names as text."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farout.identity import digest
from farout.report.board import board_csv, render_board, write_board
from farout.report.content.board import RECOMPUTED, RERUN, Board, Entry, Fact, Refused
from farout.report.content.stresses import overview
from helpers.report_pages import stresses

HOSTILE = "<script>document.title='ran'</script>\"'><img src=x onerror=\"document.title='ran'\">{{7*7}}" + "w" * 200
RTL = "\u202eevil\u202c 😀"


def entry(name: str, at: str, labels: dict[str, str], **changes: Any) -> Entry:
    values: dict[str, Any] = {
        "name": name, "identity": digest([name, at]), "packed_at": at, "folder": digest([name, at])[:16],
        "badge": RECOMPUTED, "inliers": "toy:test", "outliers": "noise:test", "budget": "quick",
        "protocols": ["clean"], "training": {"net": "toy:train"}, "extra": {}, "missing": 0, "provenance": {},
        "overview": overview({"clean": stresses(labels)}, {"clean": "Clean"}),
    }  # fmt: skip
    return Entry(**{**values, **changes})


@pytest.fixture(scope="module")
def board() -> Board:
    plain = entry("plain", "2026-01-02T", {}, badge=RERUN)
    older = entry("plain", "2025-01-02T", {})
    hostile = entry(
        HOSTILE, "2026-01-01T", {"alpha": HOSTILE, "beta": RTL, "gamma": "=cmd()"}, inliers=HOSTILE, outliers=HOSTILE,
        training={"net": HOSTILE}, extra={HOSTILE: HOSTILE}, provenance={HOSTILE: [Fact(HOSTILE, HOSTILE)]},
        notes=[HOSTILE], budget="full",
    )  # fmt: skip
    return Board([plain, older, hostile], [Refused(HOSTILE, [HOSTILE])], [HOSTILE])


def test_newest_submission_and_worst_case(board: Board) -> None:
    lines = [line for line in board.lines if line.entry.name == "plain"]
    assert {line.entry.packed_at for line in lines} == {"2026-01-02T"}
    figures = {line.subject.detector: (line.clean.value, line.worst().mean.value) for line in lines}  # type: ignore[union-attr]
    assert figures == {"alpha": (0.9, 0.4), "beta": (0.8, 0.1), "gamma": (0.7, 0.65)}


def test_page_escapes_all_names(board: Board) -> None:
    page = render_board(board)
    assert "<script>document" not in page
    assert "<img" not in page
    assert "49" + "w" * 20 not in page


def test_csv_holds_all_digits_and_no_formulas(board: Board) -> None:
    rows = list(csv.DictReader(io.StringIO(board_csv(board))))
    assert len(rows) == 2 * 2 * 3
    assert {row["detector"] for row in rows} == {"alpha", "beta", "gamma", HOSTILE, RTL, "'=cmd()"}
    assert {row["auroc"] for row in rows if row["detector"] == "beta"} == {"0.8", "0.1"}


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


@pytest.fixture
def page(board: Board, tmp_path: Path) -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if BROWSER is None:
        pytest.skip("no chromium or chrome is installed")
    write_board(board, tmp_path)
    said: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        page = browser.new_page()
        page.set_default_timeout(120_000)  # a busy machine is slow, not wrong
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith("file:") else said.append(one.url))
        page.goto((tmp_path / "index.html").as_uri())
        yield page
        browser.close()
    assert said == []


def names(page: Any) -> list[str]:
    return [one.strip() for one in page.locator("#rows-board tbody tr:visible > :first-child").all_inner_texts()]


def test_in_a_browser(page: Any) -> None:
    assert page.title() == "Leaderboard · farout"
    assert {HOSTILE, RTL, "=cmd()"} <= set(names(page))
    page.select_option("[data-key=budget]", "quick")
    assert names(page) == ["alpha", "beta", "gamma"]
    page.click("#rows-board th:has-text('worst case AUROC') button")
    assert names(page) == ["gamma", "alpha", "beta"]
    page.fill("input[data-filters=rows-board]", "alp")
    assert names(page) == ["alpha"]
    assert page.locator("#detectors output").inner_text() == "1 of 6 rows"
    page.fill("input[data-filters=rows-board]", "")
    page.select_option("[data-key=badge]", RERUN)
    page.select_option("[data-key=budget]", "")
    assert len(names(page)) == 3
    page.select_option("[data-key=badge]", "")
    page.select_option("[data-key=inliers]", HOSTILE)
    assert len(names(page)) == 3
    page.click("#theme")
    page.locator("#rows-board tbody tr:visible td:last-child a").first.click()
    assert page.locator("h1").inner_text() == HOSTILE
    assert "ran" not in page.title().split(" ")
