"""The page in a browser: no errors from file://, sorting, filtering, themes, pictures, keyboard, hostile names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farout.report.html import write_report
from helpers.report_pages import report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome is installed")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
HOSTILE = "<script>document.title='ran'</script>\"'><img src=x onerror=\"document.title='ran'\">%{x}&lt;" + "w" * 300


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    write_report(report(), folder)
    write_report(report(HOSTILE), folder / "hostile.html")
    return folder


@pytest.fixture
def opened(browser: Any, folder: Path) -> Iterator[Any]:
    """Opens a page; at the end it must not have complained."""
    said: list[str] = []
    contexts = []

    def open_page(name: str = "report.html", **settings: Any) -> Any:
        contexts.append(browser.new_context(**settings))
        contexts[-1].set_default_timeout(120_000)  # a busy machine is slow, not wrong
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith(("file:", "data:")) else said.append(one.url))
        page.goto((folder / name).as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def names(page: Any, table: str) -> list[str]:
    return [one.strip() for one in page.locator(f"#{table} tbody tr:visible > :first-child").all_inner_texts()]


@pytest.mark.parametrize("name", ["report.html", "hostile.html"])
def test_every_chart_is_drawn_without_errors(opened: Any, name: str) -> None:
    page = opened(name)
    for plot in page.locator(".plot").all():
        plot.scroll_into_view_if_needed()
        plot.locator(".main-svg").first.wait_for()
    assert page.locator(".plot").count() == page.locator(".plot[data-drawn]").count() == 10
    assert page.title() != "ran"


def test_hostile_names_are_text(opened: Any) -> None:
    page = opened("hostile.html")
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator("#rows-overview tbody th").first.inner_text() == HOSTILE
    page.locator(".plot").nth(1).scroll_into_view_if_needed()
    page.wait_for_selector(".plot[data-drawn] .xtick text")
    label = page.locator(".plot").nth(1).locator(".ytick text").first.text_content()
    assert label == HOSTILE[:33] + "…"
    assert page.locator("img[src=x]").count() == 0


def test_sorting_by_click_and_keyboard(opened: Any) -> None:
    page = opened()
    assert names(page, "rows-overview") == ["alpha", "beta", "gamma"]
    page.click("#rows-overview th:has-text('fog') button")
    assert names(page, "rows-overview") == ["gamma", "alpha", "beta"]  # higher is better: the best first
    page.keyboard.press("Enter")
    assert names(page, "rows-overview") == ["beta", "alpha", "gamma"]
    assert page.get_attribute("#rows-overview th:has-text('fog')", "aria-sort") == "ascending"
    page.click("#rows-overview th:has-text('snow') button")
    assert names(page, "rows-overview")[0] == "beta"  # the others were not tested


def test_filtering(opened: Any) -> None:
    page = opened()
    page.fill("[data-filters=rows-overview]", "GAM")
    assert names(page, "rows-overview") == ["gamma"]
    assert page.locator("#overview output").inner_text() == "1 of 3 rows"
    page.fill("[data-filters=rows-overview]", "")
    assert len(names(page, "rows-overview")) == 3


def test_cells_tell_interval_and_numbers(opened: Any) -> None:
    page = opened()
    cell = page.locator("#rows-overview tbody td a").first
    cell.focus()
    text = "alpha, clean. AUROC 0.900, 95 % interval 0.880 to 0.920; outliers: set; 100 inliers against 50 outliers."
    assert page.locator("#tip").inner_text() == text
    assert cell.get_attribute("aria-label") == text
    page.keyboard.press("ArrowDown")
    assert page.locator("#tip").inner_text().startswith("beta, clean")
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text().startswith("beta, fog")
    page.keyboard.press("Enter")
    assert page.url.endswith("#protocol-first")


def test_light_and_dark(opened: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page = opened(color_scheme="dark")
    assert page.evaluate(ground) == "rgb(20, 23, 28)"
    page.click("#theme")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.reload()
    assert page.locator("#theme").inner_text() == "Dark mode"
    assert opened(color_scheme="light").evaluate(ground) == "rgb(255, 255, 255)"


def test_charts_follow_the_theme(opened: Any) -> None:
    page = opened(color_scheme="light")
    page.locator(".plot").first.scroll_into_view_if_needed()
    tick = page.locator(".plot").first.locator(".xtick text").first
    before = tick.evaluate("one => getComputedStyle(one).fill")
    page.click("#theme")
    page.wait_for_timeout(100)
    assert (before, tick.evaluate("one => getComputedStyle(one).fill")) == ("rgb(28, 32, 38)", "rgb(232, 234, 238)")


def test_pictures_are_enlarged_and_filtered(opened: Any) -> None:
    page = opened()
    thumb = page.locator("#pictures .thumb").first
    thumb.focus()
    page.keyboard.press("Enter")
    said = page.locator("#picture p")
    assert said.inner_text() == "Failures, alpha under fog, rank 1, picture 1"
    page.keyboard.press("ArrowRight")
    assert said.inner_text() == "Failures, alpha under fog, rank 2, picture 2"
    page.keyboard.press("Escape")
    assert not page.locator("#picture").is_visible()
    page.select_option("[data-pictures=detector]", "beta")
    page.select_option("[data-pictures=stress]", "snow")
    assert page.locator("#pictures .row:visible h4").all_inner_texts() == ["beta under snow"]
    assert page.locator("#pictures figure:visible").count() == 1


def test_links_lead_somewhere(opened: Any) -> None:
    page = opened()
    for link in page.locator("a[href^='#']").all():
        assert page.locator(f"[id='{link.get_attribute('href')[1:]}']").count() == 1
    titles = ["Verdicts", "All detectors", "First", "Second", "Pictures", "Provenance"]
    assert page.locator("nav a").all_inner_texts() == titles


@pytest.mark.parametrize("name", ["report.html", "hostile.html"])
def test_a_phone_needs_no_scrolling_sideways(opened: Any, name: str) -> None:
    page = opened(name, viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_figure_as_csv(opened: Any) -> None:
    page = opened()
    with page.expect_download() as download:
        page.click("[data-csv=bars]")
    lines = Path(download.value.path()).read_text().splitlines()
    assert download.value.suggested_filename == "bars.csv"
    assert lines[0] == '"panel","series","x","y","value","low","high"'
    assert lines[1] == '"alpha","","0.5","alpha","","0.4","0.8"'


def test_printing_shows_all(opened: Any) -> None:
    page = opened()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.locator(".plot:not([data-drawn])").count() == 0
