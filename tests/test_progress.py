"""Progress: one event, and who shows it: a bar on a terminal, lines in a log file, nothing when quiet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from farout import progress
from farout.progress import Bar, Event, Lines, listening, shown, silent, task, track
from helpers.counting import Counting


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_line_tells_done_total_and_time_left() -> None:
    clock = Clock()
    lines = Lines(clock)
    assert lines.line() == "0 of ? images after 0:00:00: getting ready"
    lines(Event("score", total=4000))
    lines(Event("score near", 1000))
    clock.now += 90
    assert lines.line() == "1,000 of 4,000 images after 0:01:30, about 0:04:30 left: score near"
    lines(Event("downloading weights", 10, 40, "bytes"))
    assert lines.line() == "10 of 40 bytes after 0:01:30, about 0:04:30 left: downloading weights"
    lines(Event("score far", 3000))
    assert lines.line() == "4,000 of 4,000 images after 0:01:30: score far"


def test_a_log_file_has_a_line_every_30_seconds_also_while_nothing_ends() -> None:
    """The second line comes without an event since the first."""
    clock, said = Clock(), list[str]()
    lines = Lines(clock)
    lines(Event("fit", 50, 200))

    def wait(seconds: float) -> bool:
        clock.now += seconds
        return clock.now > 1060

    progress._repeat(lambda: said.append(lines.line()), wait)
    assert said == [
        "50 of 200 images after 0:00:30, about 0:01:30 left: fit",
        "50 of 200 images after 0:01:00, about 0:03:00 left: fit",
    ]


def work() -> None:
    logging.getLogger("farout").warning("mind the gap")
    with task("score near", 3) as count:
        count(1)


def test_without_a_terminal_lines_and_messages_are_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []

    def once(act: Callable[[], None], wait: Callable[[float], bool]) -> None:
        seen.append(progress.LINE_SECONDS)
        wait(60)  # until the work is done
        act()

    monkeypatch.setattr(progress, "_repeat", once)
    with shown():
        work()
    out, err = capsys.readouterr()
    assert (out, seen) == ("", [30.0])
    assert err.splitlines()[0] == "note: mind the gap"
    assert err.splitlines()[1].startswith("1 of 3 images after 0:00:00")


def test_on_a_terminal_there_is_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with shown():
        work()
    out, err = capsys.readouterr()
    assert out == ""
    assert "score near" in err
    assert "33%" in err
    assert "note: mind the gap" in err


@pytest.mark.parametrize("there", [True, False], ids=["with ipywidgets", "without"])
def test_in_a_notebook_a_bar_needs_ipywidgets(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "find_spec", lambda name: object() if there and name == "ipywidgets" else None)
    with progress._display(Console(force_jupyter=True), quiet=False, patience=1e9) as listener:
        assert isinstance(listener, Bar) == there


@pytest.mark.parametrize("terminal", [False, True])
def test_quiet_shows_messages_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with shown(quiet=True):
        work()
        assert list(track("abc", 3, "letters", "letters")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "note: mind the gap\n")


def test_a_bar_appears_only_when_there_is_something_to_wait_for() -> None:
    clock = Clock()
    bars = progress._bars(Console(force_terminal=True, quiet=True))
    bar = Bar(bars, 2.0, clock)
    bar(Event("short", 1, 3))
    assert not bars.live.is_started
    clock.now += 2
    bar(Event("long", 1))
    assert bars.live.is_started
    bar.close()
    assert not bars.live.is_started


def test_units_have_bars_of_their_own() -> None:
    bars = progress._bars(Console(quiet=True))
    bar = Bar(bars, 1.0)
    for event in (Event("score", 5, 20), Event("downloading", 7, 70, "bytes"), Event("fit", 5, 10)):
        bar(event)
    assert [(row.description, row.completed, row.total) for row in bars.tasks] == [
        ("fit", 10, 30),
        ("downloading", 7, 70),
    ]


def test_short_work_without_a_listener_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track("abc", None, "letters", "letters")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_tasks_report_to_the_listener_in_effect_or_to_the_one_given() -> None:
    outer, own = Counting(), Counting()
    with listening(outer):
        with shown() as found:
            assert found is outer
        work()
        with task("mine", 5, listener=own) as count:
            count(2)
    assert (outer.announced, outer.steps) == (3, [("score near", 1)])
    assert (own.announced, own.steps) == (5, [("mine", 2)])
    assert progress.current() is silent


def test_a_detector_reports_to_the_listener_in_effect() -> None:
    import farout

    images = farout.load("toy", "test", limit=70)
    panel = farout.Panel(farout.networks.create("lenet", 3, images.shape[-1], images.shape[0]), ["msp"])
    with listening(Counting()) as counting:
        panel.score(images)
    assert counting.announced == counting.swept == 70


def test_quiet_verbs_print_results_and_no_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from helpers.command_line import farout as call

    monkeypatch.setenv("FORCE_COLOR", "1")
    given = ["render", "shapes", "--split", "test/id", "--limit", "8", "--side", "8", "--format", "npz"]
    loud = call(*given, "--out", str(tmp_path / "loud"))
    quiet = call(*given, "--quiet", "--out", str(tmp_path / "quiet"))
    assert "rendering shapes" in loud.err
    assert quiet.err == ""
    assert quiet.out.split()[:2] == ["8", "images"]
