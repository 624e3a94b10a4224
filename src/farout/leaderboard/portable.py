"""Studies without the paths of the submitter's machine: /home/me/images.npz becomes files/images.npz."""

from __future__ import annotations

import ntpath
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from farout.study.spec import StudySpec, format_problems

Json = Any


LABEL = "label"
"""Key of names that are never taken for paths."""


def texts(value: Json) -> Iterator[str]:
    """Yield all texts in a study that could be paths."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item) if key != LABEL else ()
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)


def short_names(spec: Json) -> dict[str, str]:
    """Return the short name of every absolute path in a study: its last part, with a number where two are alike.

    A short name has a "/", so that a study takes it for a path and never for the name of a built-in set.
    """
    paths = sorted({text for text in texts(spec) if is_absolute(text)})
    last = {path: _last(path) for path in paths}
    times, seen = Counter(last.values()), Counter[str]()
    names = {}
    for path, name in last.items():
        seen[name] += 1
        names[path] = f"files/{seen[name]}/{name}" if times[name] > 1 else f"files/{name}"
    return names


def _last(path: str) -> str:
    return posixpath.basename(path.replace("\\", "/").rstrip("/")) or "root"


def is_absolute(text: str) -> bool:
    """Return True for an absolute path of any system."""
    return posixpath.isabs(text) or (ntpath.isabs(text) and len(text) > 1) or bool(ntpath.splitdrive(text)[0])


def renamed(value: Json, names: Mapping[str, str]) -> Json:
    """Return a study with other texts; keys and labels stay."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, Mapping):
        return {key: item if key == LABEL else renamed(item, names) for key, item in value.items()}
    return [renamed(item, names) for item in value] if isinstance(value, list | tuple) else value


def read_spec(spec: Json, folder: Path) -> StudySpec:
    """Return the study of a submission. Its paths are resolved against `folder`, in which nothing exists.

    Raise for a path that leads elsewhere, and for short forms of entries, for which files would be opened.
    """
    check_paths(spec)
    if not isinstance(spec, Mapping) or not isinstance(spec.get("inliers"), Mapping) or "test" not in spec["inliers"]:
        raise ValueError("the study is not in the form in which `farout run` stores it")
    try:
        return StudySpec.model_validate(spec, context={"folder": folder})
    except ValidationError as error:
        raise ValueError(f"the study is not valid:\n{format_problems(error)}") from None


def check_paths(spec: Json) -> None:
    """Raise for a text that could be a path out of the submission."""
    for text in texts(spec):
        parts = text.replace("\\", "/").split("/")
        if is_absolute(text) or text.startswith("~") or ".." in parts:
            raise ValueError(f"the study holds the path {text[:200]!r}, which leads out of the submission")
