"""Names of several files at once: photos-{0000..0009}.tar, {cats,dogs}.tar, train-*.parquet."""

from __future__ import annotations

import glob
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

MOST_FILES = 100_000
"""Maximum number of files that a pattern may name."""
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d{1,18})\.\.(\d{1,18})")
_WILD = re.compile(r"[*?[]")
_SHOWN = 5


def is_pattern(name: str) -> bool:
    """Return True for a name with braces or wildcards that is not itself a file or a folder."""
    return re.search(r"[{*?[]", name) is not None and not Path(name).expanduser().exists()


def expand(pattern: str) -> list[Path]:
    """Return the files that a pattern names: of braces in their order, of wildcards sorted; all of them must exist."""
    found, missing = list[Path](), list[str]()
    for name in _names(str(Path(pattern).expanduser()), pattern):
        paths = [Path(path) for path in sorted(glob.glob(name))] if _WILD.search(name) else [Path(name)]  # noqa: PTH207
        found += paths
        missing += [name] if not all(path.exists() for path in paths) or not paths else []
    if missing:
        more = f" and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else ""
        raise FileNotFoundError(
            f"{pattern} names {len(missing):,} files that are not there: {', '.join(missing[:_SHOWN])}{more}"
        )
    if len(set(found)) < len(found):
        twice = next(path for place, path in enumerate(found) if path in found[:place])
        raise ValueError(f"{pattern} names {twice} twice; name every file once")
    return found


def title_of(pattern: str) -> str:
    """Return what tables call the files of a pattern: photos-{0000..0009}.tar is photos."""
    path = Path(pattern)
    start = re.split(r"[{*?[]", path.name)[0].rstrip("-_. ")
    return start or path.parent.name or "shards"


def _names(text: str, pattern: str) -> Iterator[str]:
    """Yield the names that the braces of a pattern stand for."""
    pieces = _BRACES.split(text)
    choices = [_choices(piece) if place % 2 else [piece] for place, piece in enumerate(pieces)]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > MOST_FILES:
        raise ValueError(f"{pattern} names {total:,} files, at most {MOST_FILES:,} are allowed; make larger shards")
    return map("".join, itertools.product(*choices))


def _choices(inside: str) -> _Numbers | list[str]:
    """Return what a pair of braces stands for: 0000..0009 for numbers, a,b for these."""
    if numbers := _RANGE.fullmatch(inside):
        first, last = numbers.groups()
        padded = any(len(number) > 1 and number.startswith("0") for number in (first, last))
        return _Numbers(int(first), int(last), max(len(first), len(last)) if padded else 0)
    return inside.split(",") if "," in inside else [f"{{{inside}}}"]


class _Numbers:
    """Numbers from one to another, both included, with leading zeros."""

    def __init__(self, first: int, last: int, digits: int) -> None:
        self.numbers, self.digits = range(first, last + 1) if first <= last else range(first, last - 1, -1), digits

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[str]:
        return (f"{number:0{self.digits}}" for number in self.numbers)
