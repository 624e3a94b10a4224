"""Arrays by name that are made when they are read, and not kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from numpy.typing import NDArray


class Lazy(Mapping[str, NDArray[Any]]):
    """Arrays by name; reading one calls `read(name)`."""

    def __init__(self, names: Iterable[str], read: Callable[[str], NDArray[Any]]) -> None:
        self._names, self._read = dict.fromkeys(names), read

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names  # the mixin's reads the array
