"""Start of `farout` in a process of its own: as a new program, or forked from a server that has imported it.

A new program needs seconds for its imports. Python's fork server has done them once: a process that it forks is in the
state of a `farout` that has not read its arguments yet.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Protocol

ONE_THREAD = {"OMP_NUM_THREADS": "1"}
IMPORTED = ["farout.cli", "farout.api.run", "farout.study.engines.run", "farout.protocols", "farout.detectors"]


class Started(Protocol):
    """Process as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


def start_fresh(command: Sequence[str], log: Path, folder: Path, environment: Mapping[str, str]) -> Started:
    """Start a new program; its output goes to a file."""
    with log.open("wb") as file:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=folder, start_new_session=True,
            env={**os.environ, **ONE_THREAD, **environment},
        )  # fmt: skip


def start_warm(arguments: Sequence[str], log: Path, folder: Path) -> Started:
    """Fork a process that runs `farout ARGUMENTS`; its output goes to a file."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return start_fresh([sys.executable, "-m", "farout", *arguments], log, folder, {})
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    log.touch()  # the process may be killed before it writes anything
    return _Forked(context, list(arguments), str(log), str(folder))


class _Forked:
    """Process of the fork server, with the methods of `subprocess.Popen`."""

    def __init__(self, context: ForkServerContext, *arguments: object) -> None:
        self._process: ForkServerProcess = context.Process(target=_run, args=arguments)
        before = {key: os.environ.get(key) for key in ONE_THREAD}
        os.environ.update(ONE_THREAD)  # the server starts with the first process
        try:
            self._process.start()
        finally:
            for key, value in before.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("farout", timeout or 0)
        return code

    def kill(self) -> None:
        self._process.kill()


def _run(arguments: list[str], log: str, folder: str) -> None:
    """Run the command line in this process."""
    with suppress(OSError):
        os.setsid()
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for output in (1, 2):
        os.dup2(handle, output)
    os.chdir(folder)
    sys.argv = ["farout", *arguments]
    runpy.run_module("farout", run_name="__main__")
