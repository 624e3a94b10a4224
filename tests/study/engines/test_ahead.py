"""Worker processes that are started before the run that takes them, and what a process must not import."""

import json
import multiprocessing
import subprocess
import sys

import pytest

from farout.study.engines.ahead import take_worker, workers_ahead

DRAWING = ["matplotlib", "plotly", "jinja2", "scipy.stats", "scipy.io", "scipy.ndimage", "scipy.interpolate"]


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (
            "import farout.study.engines.run, farout.study.study",
            [*DRAWING, "pandas", "farout.report", "farout.protocols"],
        ),
        ("import farout.api.run, farout.api.plan", DRAWING),
    ],
)
def test_a_run_imports_nothing_that_only_reports_need(code: str, unwanted: list[str]) -> None:
    listing = f"{code}\nimport json, sys\nprint(json.dumps([name for name in {unwanted!r} if name in sys.modules]))"
    out = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == []


def test_a_run_takes_workers_started_ahead_and_the_others_are_killed() -> None:
    before = set(multiprocessing.active_children())
    with workers_ahead(2):
        ahead = set(multiprocessing.active_children()) - before
        taken = take_worker(())
        assert taken.process in ahead
        assert set(multiprocessing.active_children()) - before == ahead
    (left,) = ahead - {taken.process}
    assert left.exitcode == -9
    assert taken.process.is_alive()
    taken.connection.close()  # a worker without a parent to listen to ends
    taken.process.join(60)
    assert taken.process.exitcode == 0


def test_workers_started_without_a_plugin_are_not_taken_by_a_run_that_has_one(tmp_path) -> None:
    (tmp_path / "mine.py").write_text("")
    plugins = (str(tmp_path / "mine.py"),)
    with workers_ahead(1):
        ahead = multiprocessing.active_children()
        taken = take_worker(plugins)
        taken.process.kill()
        taken.process.join()
    assert taken.process not in ahead


def test_an_error_while_the_run_is_planned_leaves_no_process() -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(ValueError, match="no such set"), workers_ahead(2):
        raise ValueError("no such set")
    assert set(multiprocessing.active_children()) == before
