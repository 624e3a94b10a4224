"""A file system in memory whose faults a test sets: writes that fail, no exclusive creation, somebody who is faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class FaultyFiles(MemoryFileSystem):  # type: ignore[misc]
    """Files of faulty://."""

    protocol = "faulty"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    failing: ClassVar[int] = 0
    """Number of writes that fail next."""
    working: ClassVar[int] = 10**9
    """Number of writes until the network goes down for good."""
    exclusive: ClassVar[bool] = True
    """True if it can create a file only if there is none."""
    after_write: ClassVar[Callable[[str], None] | None] = None
    written: ClassVar[list[str]] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("faulty://", "memory://")))

    def _fail(self, path: str) -> None:
        cls = type(self)
        cls.working -= 1
        if cls.failing > 0 or cls.working < 0:
            cls.failing -= 1
            raise ConnectionError("the network is down")
        cls.written.append(path)

    def put_file(self, lpath: str, rpath: str, **kwargs: Any) -> None:
        """Write a file, or fail."""
        self._fail(rpath)
        super().put_file(lpath, rpath, **kwargs)

    def rm_file(self, path: str) -> None:
        """Remove a file, or fail."""
        self._fail(path)
        super().rm_file(path)

    def pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
        """Write a file, or fail."""
        if kwargs.get("mode") == "create" and not self.exclusive:
            raise NotImplementedError
        self._fail(path)
        super().pipe_file(path, value, **kwargs)
        if type(self).after_write is not None:
            type(self).after_write(path)


def reset() -> None:
    """Remove all files and faults."""
    fsspec.register_implementation("faulty", FaultyFiles, clobber=True)
    FaultyFiles.store.clear()
    FaultyFiles.working, FaultyFiles.failing, FaultyFiles.exclusive, FaultyFiles.after_write = 10**9, 0, True, None
    FaultyFiles.written.clear()
