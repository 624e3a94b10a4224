"""The site: what it shows comes from the scores; refused submissions and earlier ones; badges."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from farout.leaderboard import build, check
from farout.leaderboard.pack import versions
from farout.leaderboard.rerun import Rerun, result_path
from farout.leaderboard.submission import Submission
from farout.report.content.board import RECOMPUTED, RERUN
from farout.study.records import write_verified_json
from helpers.command_line import farout, refused
from helpers.submissions import copied, reseal


def outcome(folder: Path, *, passed: bool = True) -> Rerun:
    """The outcome of a rerun, written beside a submission without running anything."""
    result = Rerun(
        submission=Submission(folder).id, name="small", passed=passed, sample=10, seed=0, tolerance=1e-3,
        largest_difference=0.0, equal=10, worst="clean", detectors={}, computed=[], left_out=[], versions=versions(),
        machine="x", at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    write_verified_json(result_path(folder), result.model_dump(mode="json"))
    return result


def test_site(submission: Path, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    new = copied(submission, tmp_path / "all")
    old = copied(submission, tmp_path).rename(tmp_path / "all" / "old")
    bad = copied(submission, tmp_path).rename(tmp_path / "all" / "bad")
    reseal(old, lambda manifest: manifest.update(packed_at="2020-01-01T00:00:00+00:00"))
    (bad / "tables" / "clean.csv").write_text("typed in")
    outcome(new)
    outcome(old, passed=False)
    board = build([tmp_path / "all"], tmp_path / "site")
    assert [(entry.packed_at[:4], entry.badge) for entry in board.history["small"]] == [
        (Submission(new).manifest.packed_at[:4], RERUN),
        ("2020", RECOMPUTED),
    ]
    assert [one.name for one in board.refused] == ["bad"]
    checked = check(new)
    assert checked.document is not None
    reference = checked.document.overview.reference
    assert reference is not None
    for line in board.lines:
        assert line.clean is not None
        assert line.clean.value == reference.means[line.subject].value
        worst = line.worst()
        assert worst is not None
        assert worst.mean.value == min(mean.value for _, mean in line.stressed)
    rows = list(csv.DictReader((tmp_path / "site" / "board.csv").read_text().splitlines()))
    assert {row["detector"] for row in rows} == {"msp", "mls", "knn"}
    folder = tmp_path / "site" / Submission(new).id[:16]
    page = (folder / "index.html").read_text()
    assert "rendered here: the same images" in page
    assert "existing weights, digest" in page
    assert (folder / "report.html").is_file()
    assert "typed in" not in "".join(path.read_text() for path in (tmp_path / "site").rglob("*.csv"))
    build([new], tmp_path / "site")  # replaces the earlier site
    assert not (tmp_path / "site" / Submission(old).id[:16]).exists()


def test_the_report_of_the_submitter_is_not_served(submission: Path, tmp_path: Path) -> None:
    mine = copied(submission, tmp_path)
    page = (mine / "report.html").read_text()
    (mine / "report.html").write_text(page.replace("</body>", "<script>alert(1)</script></body>"))
    reseal(mine)
    build([mine], tmp_path / "site")
    assert all("alert(1)" not in path.read_text() for path in (tmp_path / "site").rglob("*.html"))


def test_commands(submission: Path, tmp_path: Path) -> None:
    ended = farout("leaderboard", "check", submission, "--quiet")
    assert (ended.code, "no damage or inconsistency found" in ended.out) == (0, True)
    mine = copied(submission, tmp_path)
    (mine / "report.html").unlink()
    ended = farout("leaderboard", "check", mine, "--quiet")
    assert (ended.code, "error: report.html is missing" in ended.out) == (1, True)
    assert farout("leaderboard", "build", mine, "--out", tmp_path / "site", "--quiet").code == 1
    assert "holds no submission" in refused("leaderboard", "check", tmp_path)
    assert "exists already" in refused("leaderboard", "pack", submission.parent / "run", "--out", mine)


def test_a_folder_with_other_files_is_not_replaced(submission: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("dear")
    with pytest.raises(FileExistsError, match="holds other files than a leaderboard"):
        build([submission], tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "dear"
