"""Adapters on the command line: listed, and checked by where they stand."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from farout.cli import app

FILE = """
import farout

def contrast(images):
    return images.std((1, 2, 3))

def crowd(images):
    return images.mean((1, 2, 3)) - images.mean()

forest = farout.adapters.Estimator("sklearn.ensemble.IsolationForest", settings={"n_estimators": 10})
"""


def test_adapters_are_listed_with_a_line_each() -> None:
    answer = CliRunner().invoke(app, ["list", "adapters"])
    assert answer.exit_code == 0
    lines = [line.split(maxsplit=1) for line in answer.output.splitlines() if not line.startswith(" ")]
    assert [name for name, _ in lines] == ["estimator", "function", "http", "onnx"]
    assert "A function of yours: images in, one score per image out." in answer.output


def test_a_function_and_an_adapter_are_checked_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    for name in ("contrast", "forest"):
        answer = CliRunner().invoke(app, ["check", f"{tmp_path}/mine.py:{name}"])
        assert answer.exit_code == 0, answer.output
        assert answer.output.count("ok ") == 10
    answer = CliRunner().invoke(app, ["check", f"{tmp_path}/mine.py:crowd"])
    assert answer.exit_code == 1
    assert "failed scores an image alike in any batch" in answer.output
