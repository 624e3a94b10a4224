"""The memo gives back what was computed, and computes again whatever might have changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farout.data import memo


class Counted:
    """Function that counts its calls."""

    def __init__(self, value: object) -> None:
        self.value, self.calls = value, 0

    def __call__(self) -> object:
        self.calls += 1
        return self.value


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAROUT_DATA", str(tmp_path))
    return tmp_path


def only_file(folder: Path) -> Path:
    (path,) = folder.rglob("*.json")
    return path


@pytest.mark.usefixtures("folder")
def test_a_fact_is_computed_once_per_key() -> None:
    one, other = Counted({"digest": "ab", "blocks": ["a"]}), Counted(None)
    assert [memo.remembered("kind", [1], one) for _ in range(3)] == [{"digest": "ab", "blocks": ["a"]}] * 3
    assert [memo.remembered("kind", [2], other) for _ in range(2)] == [None, None]
    assert (one.calls, other.calls) == (1, 1)
    assert memo.remembered("another kind", [1], Counted(5)) == 5


def test_other_software_knows_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memo.remembered("kind", [1], Counted(1))
    monkeypatch.setattr(memo, "software", lambda: "another version")
    assert memo.remembered("kind", [1], Counted(2)) == 2


@pytest.mark.parametrize("damage", ["{", "[]", '{"value": 1}', "flip"])
def test_a_damaged_fact_is_computed_again(folder: Path, damage: str) -> None:
    memo.remembered("kind", [1], Counted("abc"))
    path = only_file(folder)
    path.write_text(path.read_text().replace("abc", "abd") if damage == "flip" else damage)
    assert memo.remembered("kind", [1], again := Counted("abc")) == "abc"
    assert again.calls == 1
    assert json.loads(path.read_text())["value"] == "abc"


def test_without_a_place_to_keep_it_a_fact_is_still_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FAROUT_DATA", str(tmp_path / "file"))
    assert memo.remembered("kind", [1], Counted(7)) == 7


def test_the_software_is_known_by_its_source_and_libraries() -> None:
    assert len(memo.software()) == 40
    assert memo._version("torch")
    assert memo._version("no such library") is None
