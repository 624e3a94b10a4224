"""Per-image tables of records, read from Parquet. The last ones are kept in memory, since reports read them often."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

import pyarrow as pa


class TableCache:
    """Tables by the checksum of their file, the least recently used first, up to a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit, self._bytes = limit, 0
        self._tables: OrderedDict[str, tuple[pa.Table, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, checksum: str, read: Callable[[], pa.Table]) -> pa.Table:
        """Return the table of a verified file, whose content the checksum identifies; `read` if it is not kept."""
        with self._lock:
            if checksum in self._tables:
                self._tables.move_to_end(checksum)
                return self._tables[checksum][0]
        table = read()
        with self._lock:
            self._keep(checksum, table)
        return table

    def _keep(self, checksum: str, table: pa.Table) -> None:
        if checksum in self._tables:  # another thread has read it meanwhile
            return
        self._tables[checksum] = table, table.nbytes
        self._bytes += table.nbytes
        while self._bytes > self._limit:
            self._bytes -= self._tables.popitem(last=False)[1][1]


TABLES = TableCache(2**27)
"""Tables that this process has read."""
