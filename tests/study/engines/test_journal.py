"""The progress file of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from farout.progress import Event, silent
from farout.study.engines.journal import PROGRESS, SAMPLES, WRITE_SECONDS, Journal, read


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_sums_rate_and_title(tmp_path: Path) -> None:
    heard: list[Event] = []
    clock = Clock()
    journal = Journal(tmp_path / PROGRESS, heard.append, clock)
    events = [Event("starting", total=1000), Event("one", 50), Event("two", 70), Event("three", 30, 100)]
    for second, event in enumerate(events):
        clock.now = second * WRITE_SECONDS
        journal(event)
    assert heard == events
    assert read(tmp_path / PROGRESS, tmp_path) == ("three", 150, 1100, pytest.approx(150 / (3 * WRITE_SECONDS)))


def test_the_rate_is_that_of_the_last_minutes(tmp_path: Path) -> None:
    clock = Clock()
    journal = Journal(tmp_path / PROGRESS, silent, clock)
    for step in range(3 * SAMPLES):  # first 1 image a second, then 10
        clock.now = step * WRITE_SECONDS
        journal(Event("", int(WRITE_SECONDS) * (1 if step < SAMPLES else 10)))
    found = read(tmp_path / PROGRESS, tmp_path)
    assert found is not None
    assert found.rate == pytest.approx(10)


def test_events_in_quick_succession_are_written_once(tmp_path: Path) -> None:
    clock = Clock()
    journal = Journal(tmp_path / PROGRESS, silent, clock)
    journal(Event("first", total=9))
    clock.now = 0.9 * WRITE_SECONDS
    journal(Event("second", 1))
    assert read(tmp_path / PROGRESS, tmp_path) == ("first", 0, 9, 0.0)


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "gone" / PROGRESS, silent)
    journal(Event("a", 1))
    journal.close()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"title": "a"}', '{"title": 1, "done": "x", "total": 1, "rate": 1}']
)
def test_a_file_that_is_no_progress_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / PROGRESS).write_text(content)
    assert read(tmp_path / PROGRESS, tmp_path) is None
    assert read(tmp_path / "none.json", tmp_path) is None
