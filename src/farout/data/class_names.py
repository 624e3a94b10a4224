"""Names of classes: read from a folder or a text file, and matched with the classes of an image set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def read_class_names(path: str | Path) -> tuple[str, ...]:
    """Return the names of classes in order: sorted sub-folders of a folder, or the first word of a text file's lines.

    For networks of ImageNet: the folder "train" of ImageNet, or a list of its 1,000 synsets in the order of the logits.
    """
    path = Path(path)
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    elif path.is_file():
        names = [line.split()[0] for line in path.read_text("utf-8").splitlines() if line.strip()]
    else:
        raise FileNotFoundError(f"no folder or file {path}; expected one sub-folder, or one line, per class")
    if len(names) < 2:
        raise ValueError(f"{path} names {len(names)} classes, expected at least 2: one sub-folder, or one line, each")
    if len(set(names)) < len(names):
        raise ValueError(f"{path} names a class twice; expected every class once")
    return tuple(names)


def class_indices(known: Sequence[str], wanted: Sequence[str], where: object) -> tuple[int, ...]:
    """Return the index of every wanted class among the known ones; raise if one is missing. where: source of these."""
    place = {name: index for index, name in enumerate(known)}
    if missing := [name for name in wanted if name not in place]:
        raise ValueError(
            f"{len(missing)} of {len(wanted)} classes are not in {where}, such as {missing[0]!r}; it has {len(known)} "
            f"classes, such as {', '.join(known[:3])}"
        )
    return tuple(place[name] for name in wanted)
