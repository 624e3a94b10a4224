"""Tables in memory: read once, within a limit, and identified by content."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from farout.study.store import Store, score_table
from farout.study.table_cache import TableCache


@pytest.fixture
def reads(monkeypatch):
    """Paths that are read from disk."""
    paths = []
    original = pq.ParquetFile

    def opened(path):
        paths.append(path.name)
        return original(path)

    monkeypatch.setattr(pq, "ParquetFile", opened)
    return paths


def _write(path, values):
    score_table({"score": np.asarray(values, np.float64)})(path)
    return path


def test_a_table_is_read_once_and_dropped_beyond_the_limit(tmp_path, reads):
    first, second = _write(tmp_path / "a", np.arange(100.0)), _write(tmp_path / "b", np.arange(100.0) + 1)
    cache = TableCache(limit=1000)  # each table has 800 bytes
    for _ in range(3):
        assert cache.read(first, "one").column("score").to_numpy().tolist() == list(range(100))
    cache.read(second, "two")
    cache.read(first, "one")
    assert reads == ["a", "b", "a"]


def test_a_record_that_is_written_again_is_read_again(tmp_path):
    store = Store(tmp_path).open()
    for values in ([1.0, 2.0], [3.0, 4.0]):
        store.remove_result("cell")
        store.write("cell", {}, {"scores.parquet": score_table({"score": np.array(values)})})
        assert store.scores("cell").tolist() == values
