"""The command line in this process: fast enough to be asked hundreds of times."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import NamedTuple
from unittest import mock

from farout import cli


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def farout(*arguments: object) -> Ended:
    """Run `farout ARGUMENTS`."""
    out, err = io.StringIO(), io.StringIO()
    plain = {key: value for key, value in os.environ.items() if key != "FAROUT_DEBUG"} | {"COLUMNS": "300"}
    with (
        mock.patch.dict(os.environ, plain, clear=True),
        mock.patch.object(sys, "argv", ["farout", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as ended:
            return Ended(int(ended.code or 0), out.getvalue(), err.getvalue())
    return Ended(0, out.getvalue(), err.getvalue())


def refused(*arguments: object) -> str:
    """Run a command that must end in one clear error; return what it says."""
    ended = farout(*arguments)
    assert ended.code == 2, f"exit code {ended.code}\n{ended.out}\n{ended.err}"
    assert "Traceback" not in ended.err
    assert ended.err.count("error: ") + ended.err.count("─ Error ─") == 1, ended.err
    return ended.err
