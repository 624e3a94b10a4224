"""Bars: silent when work is short, and never in the way of the items."""

from __future__ import annotations

import pytest

from farout.data import progress


def test_short_work_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress.track("abc", 3, "letters")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("total", [3, None])
def test_long_work_shows_a_bar_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, total: int | None
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(progress.track("abc", total, "letters")) == ["a", "b", "c"]
    out, err = capsys.readouterr()
    assert out == ""
    assert "letters" in err
