"""Tables in memory: read once, within a limit, and identified by content."""

import numpy as np
import pyarrow as pa

from farout.study.store import Store, score_table
from farout.study.table_cache import TableCache


def test_a_table_is_read_once_and_dropped_beyond_the_limit():
    tables = {name: pa.table({"score": np.arange(100.0) + shift}) for name, shift in (("a", 0), ("b", 1))}
    reads = []

    def read(name):
        reads.append(name)
        return tables[name]

    cache = TableCache(limit=1000)  # each table has 800 bytes
    for _ in range(3):
        assert cache.get("one", lambda: read("a")).column("score").to_numpy().tolist() == list(range(100))
    cache.get("two", lambda: read("b"))
    cache.get("one", lambda: read("a"))
    assert reads == ["a", "b", "a"]


def test_a_record_that_is_written_again_is_read_again(tmp_path):
    store = Store(tmp_path).open()
    for values in ([1.0, 2.0], [3.0, 4.0]):
        store.remove_results(["cell"])
        store.write("cell", {}, {"scores.parquet": score_table({"score": np.array(values)})})
        assert store.scores("cell").tolist() == values
