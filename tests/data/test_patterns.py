"""Patterns of names: braces and wildcards."""

from __future__ import annotations

from pathlib import Path

import pytest

from farout.data.patterns import expand, is_pattern, title_of


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a-{08..10}.tar", ["a-08.tar", "a-09.tar", "a-10.tar"]),
        ("a-{10..08}.tar", ["a-10.tar", "a-09.tar", "a-08.tar"]),
        ("{b,a-08}.tar", ["b.tar", "a-08.tar"]),
        ("a-{08,09}*.ta{r,x}", ["a-08.tar", "a-08.tax", "a-09.tar", "a-09.tax"]),
        ("a-?[89].tar", ["a-08.tar", "a-09.tar"]),
        ("{c}-{1..2}", ["{c}-1", "{c}-2"]),
    ],
)
def test_the_files_that_a_pattern_names(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    made(tmp_path, "a-08.tar", "a-09.tar", "a-10.tar", "a-08.tax", "a-09.tax", "b.tar", "{c}-1", "{c}-2")
    assert [path.name for path in expand(str(tmp_path / pattern))] == expected


def test_as_braceexpand_reads_them(tmp_path: Path) -> None:
    expected = pytest.importorskip("braceexpand").braceexpand("{a,b}-{0..2}-{08..11}.tar")
    names = list(expected)
    made(tmp_path, *names)
    assert [path.name for path in expand(str(tmp_path / "{a,b}-{0..2}-{08..11}.tar"))] == names


def test_a_file_with_braces_in_its_name_is_a_file(tmp_path: Path) -> None:
    made(tmp_path, "a{1,2}[3].tar")
    assert not is_pattern(str(tmp_path / "a{1,2}[3].tar"))
    assert is_pattern(str(tmp_path / "a{1,2}.tar"))
    assert not is_pattern("cifar10")


@pytest.mark.parametrize(
    ("pattern", "title"),
    [
        ("shards/photos-{0000..0009}.tar", "photos"),
        ("data/train-*-of-00002.parquet", "train"),
        ("data/*.tar", "data"),
        ("*.tar", "shards"),
    ],
)
def test_titles(pattern: str, title: str) -> None:
    assert title_of(pattern) == title
