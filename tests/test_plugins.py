"""The user's files: imported once, known afterwards, and errors that say what was looked for."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest
import torch

from farout.detectors.catalog import catalog
from farout.plugins import load_plugin, named_object
from farout.registry import UnknownName

TEXT = """
import farout
COUNT = []
COUNT.append(1)

class Bright(farout.Detector):
    def score(self, images):
        return images.mean((1, 2, 3))
"""


def test_a_file_is_imported_once_under_a_name_of_its_own(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(TEXT)
    first = load_plugin(tmp_path / "a" / "mine.py")
    assert load_plugin(tmp_path / "b" / ".." / "a" / "mine.py") is first
    assert first.COUNT == [1]
    second = load_plugin(tmp_path / "b" / "mine.py")
    assert second is not first
    assert second.Bright is not first.Bright


def test_a_named_class_is_found_with_its_source(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TEXT)
    cls = named_object(f"{tmp_path}/mine.py:Bright")
    assert cls().score(torch.full((2, 3, 4, 4), 0.25)).tolist() == [0.25, 0.25]
    assert cls.name == "Bright"
    assert inspect.getsource(cls).startswith("class Bright(farout.Detector)")


def test_what_a_plugin_registers_is_known(tmp_path: Path) -> None:
    (tmp_path / "more.py").write_text(
        "import farout\n@farout.register\nclass Loud(farout.PostHoc):\n"
        "    name = 'loud'\n    def score(self, activations): return activations.logits.double().abs().amax(1)\n"
    )
    load_plugin(tmp_path / "more.py")
    detector = catalog.create("loud")
    assert "loud" in catalog.names()
    assert detector.name == "loud"


def test_a_file_that_fails_can_be_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("raise RuntimeError('not today')")
    before = set(sys.modules)
    with pytest.raises(RuntimeError, match="not today"):
        load_plugin(path)
    assert not [name for name in set(sys.modules) - before if name.startswith("farout_plugin")]
    path.write_text("ANSWER = 'a longer text than before'")
    assert load_plugin(path).ANSWER == "a longer text than before"


@pytest.mark.parametrize("name", ["missing.py", "notes.txt", "folder.py"])
def test_what_is_no_python_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x = 1")
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(ValueError, match=f"no such plugin: .*{name}; expected a Python file"):
        load_plugin(tmp_path / name)


@pytest.mark.parametrize("reference", ["mine.py", "Bright", "mine.txt:Bright", ":Bright"])
def test_a_reference_has_a_file_and_a_name(reference: str) -> None:
    with pytest.raises(ValueError, match=f"expected file.py:Name, got '{reference}'"):
        named_object(reference)


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TEXT)
    with pytest.raises(UnknownName, match=r"unknown name in .*mine.py: 'Brigth'. Did you mean 'Bright'"):
        named_object(f"{tmp_path}/mine.py:Brigth")
