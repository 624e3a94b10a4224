"""Locations in the user's code: the line that raised an error, and the line that defines a class or function."""

from __future__ import annotations

import inspect
import re
import sysconfig
import traceback
from pathlib import Path
from typing import Any

_FRAME = re.compile(r'^ *File "([^"<>]+)", line (\d+)', re.MULTILINE)
_NOT_USERS = (str(Path(__file__).parent), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))


def raised_at(error: BaseException | str) -> str:
    """Return " (mine.py, line 12)", the innermost line of the user's code in an error or the text of its traceback.

    Empty if the traceback has no file of the user's.
    """
    text = error if isinstance(error, str) else "".join(traceback.format_exception(error))
    frames = [(file, line) for file, line in _FRAME.findall(text) if is_users_file(file)]
    return f" ({_display_path(frames[-1][0])}, line {frames[-1][1]})" if frames else ""


def defined_at(thing: Any, method: str = "") -> str:
    """Return " (Mine.score in mine.py, line 12)" for a function or a method of an object in the user's code."""
    function = inspect.unwrap(getattr(type(thing), method, thing) if method else thing)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None or not is_users_file(code.co_filename):
        return ""
    return f" ({function.__qualname__} in {_display_path(code.co_filename)}, line {code.co_firstlineno})"


def is_users_file(file: str) -> bool:
    """Return True for a file of the user's: not of farout, Python or an installed library."""
    installed = not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
    return not installed and not file.startswith(("<", *_NOT_USERS))


def _display_path(file: str) -> str:
    """Return the path for display: relative if it is below the current folder."""
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
