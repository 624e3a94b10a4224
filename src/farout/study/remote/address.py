"""Files at an address, through fsspec. Every error names the address."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
OBJECTS = {"s3", "gs", "az", "memory"}
"""Protocols without folders."""
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")


class RemoteError(OSError):
    """An address cannot be read or written."""


def is_address(place: object) -> bool:
    """Return True for the text of an address, such as s3://bucket/run."""
    return isinstance(place, str) and _SCHEME.match(place) is not None


class Remote:
    """Folder at an address."""

    def __init__(self, address: str) -> None:
        scheme, _, path = address.partition("://")
        if not path.strip("/"):
            raise ValueError(f"{address} has no folder; give one for the run, such as {scheme}://BUCKET/RUN")
        self.address = address.rstrip("/")
        if importlib.util.find_spec("fsspec") is None:
            raise ImportError(f'{address} needs the package fsspec: pip install "farout[remote]"')
        self._files, self._root = _file_system(self.address)

    def __str__(self) -> str:
        return self.address

    def list(self) -> dict[str, int]:
        """Return the sizes of all files, by their paths below the address."""
        with self._errors("read"):
            self._files.invalidate_cache()
            try:
                found = self._files.find(self._root, detail=True)
            except FileNotFoundError:
                return {}
        prefix = self._root.rstrip("/") + "/"
        return {
            path.removeprefix(prefix): int(facts["size"]) for path, facts in found.items() if path.startswith(prefix)
        }

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raise FileNotFoundError if there is none."""
        with self._errors("read"):
            content: bytes = self._files.cat_file(self._path(path))
            return content

    def download(self, path: str, target: Path) -> None:
        """Write the content of a file to a local one."""
        with self._errors("read"):
            self._files.get_file(self._path(path), str(target))

    def upload(self, source: Path, path: str) -> None:
        """Write a file whole: readers see all of it or what was there before."""
        with self._errors("write"):
            self._make_folder(path)
            self._put(self._path(path), lambda target: self._files.put_file(str(source), target))

    def write(self, path: str, content: bytes) -> None:
        """Write a small file whole."""
        with self._errors("write"):
            self._make_folder(path)
            self._put(self._path(path), lambda target: self._files.pipe_file(target, content))

    def create(self, path: str, content: bytes) -> None:
        """Write a small file that must not exist, at once where the file system can. Raise FileExistsError."""
        with self._errors("write"):
            self._make_folder(path)
            if self._local:
                with open(self._path(path), "xb") as file:  # noqa: PTH123
                    file.write(content)
                return
            try:
                self._files.pipe_file(self._path(path), content, mode="create")
            except Exception as error:  # of many types, if the file exists
                self._files.invalidate_cache()
                if isinstance(error, FileExistsError) or self._files.exists(self._path(path)):
                    raise FileExistsError(path) from error
                if not isinstance(error, TypeError | NotImplementedError):
                    raise
                self._files.pipe_file(self._path(path), content)  # this file system does not know the mode

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        with self._errors("write"):
            try:
                self._files.rm_file(self._path(path))
            except FileNotFoundError:
                return

    def _make_folder(self, path: str) -> None:
        """Create the folder of a file, where the file system has folders; an object store would create a bucket."""
        if self._protocols.isdisjoint(OBJECTS):
            self._files.makedirs(self._path(path).rpartition("/")[0], exist_ok=True)

    def _put(self, target: str, put: Callable[[str], T]) -> None:
        """Write to an address at once: objects are, and files on a disk are renamed."""
        if not self._local:
            put(target)
            return
        folder, _, name = target.rpartition("/")
        temporary = f"{folder}/.{name}.part"
        put(temporary)
        Path(temporary).replace(target)

    @property
    def _protocols(self) -> set[str]:
        protocol = self._files.protocol
        return {protocol} if isinstance(protocol, str) else set(protocol)

    @property
    def _local(self) -> bool:
        return "file" in self._protocols

    def _path(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}"

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Convert the errors of all file systems, which are of many types."""
        try:
            yield
        except FileExistsError:
            raise
        except Exception as error:
            if what == "read" and isinstance(error, FileNotFoundError):
                raise
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise RemoteError(f"cannot {what} {self.address} ({reason})") from error


def _file_system(address: str) -> tuple[Any, str]:
    """Return the file system of an address and the path in it. Raise with what to do if there is none."""
    import fsspec

    scheme = address.partition("://")[0]
    if scheme not in {*fsspec.available_protocols(), *fsspec.registry}:
        raise ValueError(f"{address}: there is no file system {scheme!r}; use a folder, s3://, gs://, az:// or another")
    try:
        files, root = fsspec.core.url_to_fs(address)
    except ImportError as error:
        package = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}.get(scheme, "")
        advice = f"pip install {package}" if package else str(error)
        raise ImportError(f"{address} needs a package that is not installed: {advice}") from error
    except Exception as error:
        raise RemoteError(f"cannot open {address} ({type(error).__name__}: {error})") from error
    return files, str(root)
