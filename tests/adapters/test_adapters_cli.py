"""Adapters on the command line: listed, and checked by where they stand."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from farout.cli import app

FILE = """
def contrast(images):
    return images.std((1, 2, 3))

def crowd(images):
    return images.mean((1, 2, 3)) - images.mean()
"""


def test_adapters_are_listed_with_a_line_each() -> None:
    answer = CliRunner().invoke(app, ["list", "adapters"], env={"COLUMNS": "200"})
    assert answer.exit_code == 0
    lines = [line.split(maxsplit=1) for line in answer.output.splitlines() if not line.startswith(" ")]
    assert [name for name, _ in lines] == ["estimator", "function", "http", "onnx"]
    assert "Detector from a function: images in, one score per image out." in answer.output


def test_a_function_is_checked_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    answer = CliRunner().invoke(app, ["check", f"{tmp_path}/mine.py:contrast"])
    assert answer.exit_code == 0, answer.output
    assert answer.output.count("ok ") == 10
    answer = CliRunner().invoke(app, ["check", f"{tmp_path}/mine.py:crowd"])
    assert answer.exit_code == 1
    assert "failed gives an image the same score in any batch" in answer.output


def test_a_study_runs_code_only_if_its_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n{FILE}")
    (tmp_path / "study.yaml").write_text(
        "inliers: {test: {name: toy, limit: 20}}\noutliers: [{name: noise, limit: 20}]\n"
        "detectors: [{name: function, of: 'mine.py:contrast'}]\n"
    )
    command = ["plan", f"{tmp_path}/study.yaml", "--out", f"{tmp_path}/run"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code != 0
    assert f"farout run … --plugin {tmp_path}/mine.py" in str(refused.exception)
    assert not (tmp_path / "ran").exists()
    answer = CliRunner().invoke(app, [*command, "--plugin", f"{tmp_path}/mine.py"])
    assert answer.exit_code == 0, answer.output
    assert "2 of 2 results are missing" in answer.output


def test_an_adapter_alone_is_nothing_to_check() -> None:
    answer = CliRunner().invoke(app, ["check", "onnx"])
    assert "onnx is an adapter; create a detector with it in a file" in str(answer.exception)
