"""The live view in a browser: it follows a run without errors, hostile names are text, it suits phone and keyboard."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farout.api import view
from farout.api.view import Viewing
from farout.progress import Event, silent
from farout.study.engines import activity
from farout.study.engines.journal import PROGRESS, Journal
from farout.study.store import Store
from helpers.written_runs import INLIERS, NamedCell, Outcome, Subject, write_run

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome is installed")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
HOSTILE = "<script>document.title='ran'</script>\"'><img src=x onerror=\"document.title='ran'\">" + "w" * 200
SCORES = np.arange(10.0)


def outcomes(name: str, far: Outcome = None) -> dict[Subject, dict[str, Outcome]]:
    """Two detectors: one has failed on a set, and the other's result on another set is still missing."""
    return {
        ("net", "0", name): {INLIERS: SCORES, "near": SCORES + 5, "far": far},
        ("net", "0", "b"): {INLIERS: SCORES, "near": f"ValueError: {name}", "far": SCORES},
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, folder: Path, **settings: Any) -> Iterator[Any]:
    """The page of a run; at the end it must not have complained, nor asked any other server."""
    viewing = Viewing(folder)
    thread = threading.Thread(target=viewing.serve, daemon=True)
    thread.start()
    said: list[str] = []
    context = browser.new_context(**settings)
    context.set_default_timeout(120_000)  # a busy machine is slow, not wrong
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda one: None if one.url.startswith(("data:", viewing.url)) else said.append(one.url))
    try:
        page.goto(viewing.url)
        page.locator("#tables table").first.wait_for(state="attached")
        yield page
        assert said == []
    finally:
        context.close()
        viewing.close()
        thread.join()


def numbers(page: Any) -> dict[str, str]:
    names, values = (page.locator(f"#numbers {kind}").all_inner_texts() for kind in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def test_the_page_follows_a_run(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "READ_SECONDS", 0.1)
    write_run(tmp_path, outcomes("a"))
    store = Store(tmp_path)
    with (
        store.lock(),
        activity.recording(store.running() / "run-1"),
        activity.computing(NamedCell(("net", "0", "a"), "far")),
    ):
        now = iter([0.0, 10.0])
        journal = Journal(store.running() / PROGRESS, silent, lambda: next(now))
        journal(Event("score far", 0, 1000))
        journal(Event("score far", 400))
        with opened(browser, tmp_path) as page:
            assert page.locator("#state").inner_text() == "running"
            assert numbers(page) == {
                "done": "4 of 6", "running": "1", "failed": "1", "missing": "2", "images": "400 of 1,000",
                "throughput": "40 images/s", "time left, about": "15 s",
            }  # fmt: skip
            assert page.locator("#current li").all_inner_texts()[0].startswith("score far by net")
            assert page.locator("#parts tbody tr").inner_text().split() == ["clean", "4", "1", "2"]
            assert page.locator("#bar").get_attribute("aria-valuenow") == "4"
            assert "ValueError: a" in page.locator("#failures").inner_text()
            assert page.title() == "66 % written · farout view"
            before = page.locator("#tables").inner_html()
            write_run(tmp_path, outcomes("a", far=SCORES + 20))
            page.wait_for_function("before => document.getElementById('tables').innerHTML !== before", arg=before)
            assert numbers(page)["done"] == "5 of 6"


def test_a_vanished_folder_is_said(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "READ_SECONDS", 0.1)
    write_run(tmp_path / "run", outcomes("a"))
    with opened(browser, tmp_path / "run") as page:
        assert page.locator("#state").inner_text() == "stopped"
        (tmp_path / "run").rename(tmp_path / "away")
        page.locator("#problem").wait_for()
        assert "holds no run" in page.locator("#problem").inner_text()
        assert numbers(page)["done"] == "4 of 6"
        (tmp_path / "away").rename(tmp_path / "run")
        page.locator("#problem").wait_for(state="hidden")


def test_the_end_of_the_server_is_said(browser: Any, tmp_path: Path) -> None:
    write_run(tmp_path, outcomes("a"))
    viewing = Viewing(tmp_path)
    thread = threading.Thread(target=viewing.serve, daemon=True)
    thread.start()
    page = browser.new_page()
    page.goto(viewing.url)
    page.locator("#numbers dt").first.wait_for()
    viewing.close()
    thread.join()
    page.locator("#state", has_text="farout view has ended").wait_for()
    page.close()


def test_hostile_names_are_text(browser: Any, tmp_path: Path) -> None:
    write_run(tmp_path, outcomes(HOSTILE))
    with opened(browser, tmp_path, viewport={"width": 390, "height": 844}) as page:
        assert HOSTILE in page.locator("#failures").inner_text()
        assert HOSTILE in page.locator("#tables").inner_text()
        assert page.locator("img, #tables script").count() == 0
        assert page.title() != "ran"
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_dark_mode_and_keyboard(browser: Any, tmp_path: Path) -> None:
    write_run(tmp_path, outcomes("a"))
    with opened(browser, tmp_path, color_scheme="dark") as page:
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
        page.locator("#tables summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator("#tables details").first.get_attribute("open") is not None
        page.wait_for_timeout(2500)  # the next answer does not fold it
        assert page.locator("#tables details").first.get_attribute("open") is not None


def test_the_report_so_far(browser: Any, tmp_path: Path) -> None:
    write_run(tmp_path, outcomes("a"))
    with opened(browser, tmp_path) as page:
        with page.context.expect_page() as other:
            page.click("text=Open the report so far")
        other.value.wait_for_load_state()
        assert other.value.locator("h1").inner_text() == "written"
        other.value.click("#theme")  # its scripts run, and it cannot ask this server
        asked = "fetch('status.json').then(() => 'answered', () => 'refused')"
        assert other.value.evaluate(asked) == "refused"
