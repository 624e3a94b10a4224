"""The page under axe-core, in light and dark: no serious finding. Skipped without a browser or without axe-core.

axe-core is an npm package that is not part of this repository: `npm install axe-core` beside it, or set FAROUT_AXE to
the path of its axe.min.js.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from farout.report.html import write_report
from helpers.report_pages import report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
PLACES = [os.environ.get("FAROUT_AXE", ""), "node_modules/axe-core/axe.min.js"]
AXE = next((Path(place) for place in PLACES if place and Path(place).is_file()), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome is installed"),
    pytest.mark.skipif(AXE is None, reason="axe-core is not installed (npm install axe-core, or set FAROUT_AXE)"),
]
RUN = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .filter((one) => one.impact === "serious" || one.impact === "critical")
  .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`)"""


def test_no_serious_findings(tmp_path: Path) -> None:
    assert AXE
    path = write_report(report(), tmp_path)
    with sync_api.sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=BROWSER, args=flags)
        for scheme in ("light", "dark"):
            page = browser.new_context(color_scheme=scheme).new_page()
            page.set_default_timeout(120_000)  # a busy machine is slow, not wrong
            page.goto(path.as_uri())
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            for plot in page.locator(".plot").all():
                plot.scroll_into_view_if_needed()
            page.wait_for_selector(".plot[data-drawn]")
            page.evaluate(
                AXE.read_text(encoding="utf-8") + "; 0"
            )  # a script element would be against the page's policy
            assert page.evaluate(RUN) == [], scheme
        browser.close()
