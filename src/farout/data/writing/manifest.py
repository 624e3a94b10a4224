"""Manifest of a shifted set on disk: lists the content of the folder and keeps other sets out of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from farout.core import ImageSet
from farout.data.folder import FileSet
from farout.data.writing.facts import read_facts
from farout.data.writing.file_layout import class_folders
from farout.data.writing.layout import UNFINISHED, Group, Layout
from farout.files import (
    UnsafePath,
    check_path,
    files_in,
    has_file,
    lock,
    make_folder,
    remove_temporaries,
    remove_tree,
    write_json,
)

FILE, LOCK = "manifest.json", "lock"
_SAME = ("fingerprint", "classes", "seed", "format")
"""Keys that must be the same for all shifts in a folder."""
_PACKAGES = ("farout", "torch", "numpy", "scipy", "numba", "pillow")
"""Packages whose versions are recorded, since the images may depend on them."""


def build_manifest(layout: Layout, groups: Sequence[Group], seed: int) -> dict[str, Any]:
    """Return the manifest for these groups, none of them finished."""
    images = layout.images
    facts = {
        "name": f"{images.name}-R",
        "fingerprint": images.fingerprint,
        "classes": [] if images.labels is None else class_folders(images),
        "seed": seed,
        "format": layout.form,
        "images": len(images),
        "shape": images.shape,
        "shifts": {group.name: _entry(layout, group) for group in groups},
    }
    plain: dict[str, Any] = json.loads(json.dumps(facts))  # as after reading the file
    return plain


def _entry(layout: Layout, group: Group) -> dict[str, Any]:
    return {
        "place": layout.place(group),
        "labels": group.labels,
        "images": len(group.shifts) * len(layout.rows(group)),
        "severities": group.severities,
        "identities": [shift.identity() for shift in group.shifts if shift is not None],
        "versions": [{name: version(name) for name in _PACKAGES}],
        "finished": False,
    }


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder; raise an error if farout did not write it."""
    facts = read_facts(folder / FILE)
    shifts = facts.get("shifts")
    for name, entry in shifts.items() if isinstance(shifts, dict) else [("", None)]:
        wrong = [key for key, fits in _ENTRY.items() if not isinstance(entry, dict) or not fits(entry.get(key))]
        if wrong:
            where = f"shifts.{name}: {', '.join(wrong)}" if name else "shifts"
            raise ValueError(f"{folder / FILE} is not a manifest of farout ({where}); choose another folder with --out")
    return facts


def _all(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(type(item) is kind for item in value)


_ENTRY: dict[str, Callable[[Any], bool]] = {
    "place": lambda value: isinstance(value, str) and value == Path(value).name,
    "labels": lambda value: _all(str)(value) and bool(value),
    "images": lambda value: type(value) is int,
    "severities": _all(int),
    "identities": lambda value: isinstance(value, list),
    "versions": lambda value: isinstance(value, list),
    "finished": lambda value: type(value) is bool,
}
"""Keys of every shift's entry."""


def check_folder(images: ImageSet, folder: Path, facts: dict[str, Any]) -> list[str]:
    """Return the finished shifts in this folder; raise an error if it cannot be used for these images."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected a folder, new or of the same set: choose another with --out")
    if isinstance(images, FileSet) and folder.resolve().is_relative_to(images.root.resolve()):
        raise ValueError(f"{folder} is inside the folder of {images.name}; choose another folder with --out")
    if has_file(folder / FILE):
        known = read_manifest(folder)
        _compare(folder, known, facts)
        return [name for name, entry in known["shifts"].items() if entry["finished"]]
    if folder.is_dir() and any(path.name != UNFINISHED for path in folder.iterdir()):
        raise ValueError(f"{folder} is not empty and has no {FILE}; choose another folder with --out")
    return []


def _compare(folder: Path, known: dict[str, Any], facts: dict[str, Any]) -> None:
    for key in _SAME:
        if known.get(key) != facts[key]:
            raise ValueError(
                f"{folder} holds another set: {key} is {known.get(key)!r}, expected {facts[key]!r} (see "
                f"{folder / FILE}); choose another folder with --out"
            )
    for name, entry in facts["shifts"].items():
        if name in known["shifts"]:
            _compare_shift(folder, name, known["shifts"][name], entry)
        elif check_path(taken := folder / entry["place"]).exists():
            raise ValueError(
                f"{taken} exists already, and {folder / FILE} does not list it as {name}; move it away, or "
                "choose another folder with --out"
            )


def _compare_shift(folder: Path, name: str, stored: dict[str, Any], entry: dict[str, Any]) -> None:
    if stored["severities"] != entry["severities"]:
        raise ValueError(
            f"{folder} holds severities {stored['severities']} of {name}, requested were {entry['severities']}; "
            "request the same ones, or choose another folder with --out"
        )
    if stored["identities"] != entry["identities"]:
        raise ValueError(
            f"{folder} holds {name} with other parameters or of another version: {stored['identities']}, expected "
            f"{entry['identities']} (see {folder / FILE}); choose another folder with --out"
        )


def write_manifest(folder: Path, facts: dict[str, Any], finished: Iterable[Group]) -> None:
    """Write the manifest, merged with the shifts that an existing one lists."""
    known = read_manifest(folder)["shifts"] if has_file(folder / FILE) else {}
    done = {group.name for group in finished}
    shifts = {
        name: _merge_entry(known.get(name, entry), entry, name in done) for name, entry in facts["shifts"].items()
    }
    write_json(folder / FILE, {**facts, "shifts": {**known, **shifts}})


def _merge_entry(stored: dict[str, Any], entry: dict[str, Any], finished: bool) -> dict[str, Any]:
    """Return the entry of a shift that may be partly written, with the package versions of all calls that wrote it."""
    added = [] if finished else [versions for versions in entry["versions"] if versions not in stored["versions"]]
    return {**entry, "versions": [*stored["versions"], *added], "finished": finished}


def mark_finished(folder: Path, finished: Group) -> None:
    """Mark a shift as finished in the manifest."""
    facts = read_manifest(folder)
    facts["shifts"][finished.name]["finished"] = True
    write_json(folder / FILE, facts)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Create the folder and lock it for one run; remove unfinished files before and after."""
    inside = folder / UNFINISHED
    try:
        make_folder(inside, folder)
        has_file(inside / LOCK)
        (inside / LOCK).touch()
    except UnsafePath:
        raise
    except OSError as error:
        raise ValueError(
            f"cannot write images to {folder}: {error.strerror or error}; choose another folder with --out"
        ) from error
    with _hold_lock(inside / LOCK):
        _remove_unfinished(folder, inside)
        try:
            yield
        finally:
            _remove_unfinished(folder, inside)
            if _is_finished(folder):
                remove_tree(inside, folder)


def _remove_unfinished(folder: Path, inside: Path) -> None:
    """Remove unfinished files; without a manifest also finished parts, since their set is unknown."""
    remove_temporaries(folder, locked=True)
    remove_temporaries(inside, folder, locked=True)
    if not has_file(folder / FILE):
        for path in list(files_in(inside, folder)):
            if not path.name.startswith(LOCK):
                path.unlink()


def _is_finished(folder: Path) -> bool:
    facts = read_manifest(folder) if has_file(folder / FILE) else {"shifts": {}}
    return all(entry["finished"] for entry in facts["shifts"].values())


@contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Hold the folder's lock; raise an error if another run holds it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(path))
        except BlockingIOError as error:
            raise OSError(
                f"another run is writing to {path.parent.parent}; wait for it or choose another folder with --out"
            ) from error
        yield
