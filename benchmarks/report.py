"""Seconds of a run's first report, which computes all intervals, and of its second; and of a large page.

The run has the scores of 16 detectors on clean images and under 8 attacks; the page shows 50 detectors under 100
stresses, and is opened and sorted in a browser.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.written_run import WrittenRun
from farout.protocols.document import document
from farout.report.content import Document, Measured, Stress, Subject, Summary
from farout.report.html import write_report
from farout.study.results import Results

DETECTORS, STRESSES, PROTOCOLS = 50, 100, 5
SORT = """() => {
  const began = performance.now();
  document.querySelectorAll("#rows-overview thead button")[50].click();
  document.body.offsetHeight;
  return (performance.now() - began) / 1000;
}"""
"""Script that sorts the overview by a stress, waits for the layout, and returns the seconds."""


def large(detectors: int = DETECTORS, stresses: int = STRESSES) -> Document:
    """Return a document with these numbers of detectors and stresses, in five protocols."""
    rng = np.random.default_rng(0)
    summaries = {}
    for protocol in range(PROTOCOLS):
        found = []
        for place in range(protocol, stresses, PROTOCOLS):
            values = rng.uniform(0.1, 0.9, detectors)
            measured = [
                Measured(Subject("net", f"detector {k:02d}"), "set", v, v - 0.02, v + 0.02, 1000, 1000)
                for k, v in enumerate(values.tolist())
            ]
            found.append(Stress(f"stress {place:03d}", "of outliers", measured, clean=place == protocol))
        summaries[f"p{protocol}"] = Summary(f"Protocol {protocol}", stresses=found)
    return Document("large", "full", summaries, total=detectors * stresses)


def main() -> None:
    """Print seconds; opening and sorting need playwright and chromium."""
    folder = Path(tempfile.mkdtemp(prefix="farout-report-"))
    _reports(folder / "run")
    began = time.perf_counter()
    path = write_report(large(), folder)
    print(f"\nreport of {DETECTORS} detectors under {STRESSES} stresses")
    print(f"{'write':<44}{time.perf_counter() - began:>10.2f} s {path.stat().st_size / 1e6:>8.1f} MB")
    for name, seconds in _in_browser(path).items():
        print(f"{name:<44}{seconds:>10.2f} s")
    shutil.rmtree(folder)


def _reports(folder: Path) -> None:
    """Print seconds of the first and the second report of a run."""
    WrittenRun(folder, detectors=16, attacks=8, images=10_000, attacked=1_000)
    print("\nreport of a run: 16 detectors, 10,000 images of each set, 8 attacks on 1,000 images")
    for name in ("first", "second"):
        began, worked = time.perf_counter(), time.process_time()
        write_report(document(Results(folder)), folder)
        print(f"{name:<44}{time.perf_counter() - began:>10.2f} s {time.process_time() - worked:>8.2f} s of CPU")


def _in_browser(path: Path) -> dict[str, float]:
    """Return seconds to open the page and to sort it once; empty without a browser."""
    browser = shutil.which("chromium") or shutil.which("chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser = None
    if browser is None:
        print("opening and sorting: not measured, there is no playwright or no chromium")
        return {}
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.set_default_timeout(0)
        began = time.perf_counter()
        page.goto(path.as_uri())
        opened = time.perf_counter() - began
        return {"open": opened, "sort by a stress": float(page.evaluate(SORT))}


if __name__ == "__main__":
    main()
