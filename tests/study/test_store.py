"""Records exist whole or not at all."""

import errno
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError

from farout.files import atomic_file, is_temporary
from farout.study.store import Store, StoreError, array_file, score_table


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "run").open()


def columns(n: int = 5) -> dict:
    return {"index": np.arange(n), "score": np.linspace(-1, 1, n) ** 3, "label": np.arange(n) % 2}


def test_a_record_gives_back_what_was_written(store):
    files = {"scores.parquet": score_table(columns()), "examples.safetensors": array_file({"a": np.eye(3)[:, ::2]})}
    store.write("cell", {"images": 5}, files)
    assert store.has("cell")
    assert store.facts("cell")["images"] == 5
    assert np.array_equal(store.scores("cell"), columns()["score"])
    assert np.array_equal(store.column("cell", "label"), columns()["label"])
    assert np.array_equal(store.arrays("cell", "examples.safetensors")["a"], np.eye(3)[:, ::2])
    assert store.arrays("cell", "no such file") == {}


def test_equal_columns_give_equal_bytes(store):
    for name in ("a", "b"):
        store.write(name, {}, {"scores.parquet": score_table(columns(1000))})
    a, b = ((store.path(name) / "scores.parquet").read_bytes() for name in ("a", "b"))
    assert a == b


def test_a_writer_that_fails_leaves_nothing(store):
    def full(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        store.write("cell", {}, {"scores.parquet": score_table(columns()), "state": full})
    assert not store.has("cell")
    assert list((store.root / "cells").iterdir()) == []


def test_writing_again_replaces_and_clears_the_failure(store):
    store.fail("cell", {"traceback": "boom", "reason": "boom"})
    assert store.failure("cell") == {"traceback": "boom", "reason": "boom"}
    store.write("cell", {"try": 1}, {})
    store.write("cell", {"try": 2}, {})
    assert store.facts("cell")["try"] == 2
    assert store.failure("cell") is None


def test_parts_come_back_by_chunk_until_forgotten(store):
    store.put_part("work", {"test-64-128": {"a/b": np.arange(2)}, "x": {"a/b": np.arange(4), "c": np.zeros(0)}})
    store.put_part("work", {"y": {"a/b": np.ones(1)}})
    found = dict(store.parts("work"))
    assert sorted(found) == ["test-64-128", "x", "y"]
    assert np.array_equal(found["x"]["a/b"], np.arange(4))
    assert found["x"]["c"].size == 0
    assert np.array_equal(found["y"]["a/b"], [1])
    store.forget("work")
    assert dict(store.parts("work")) == {}


def test_half_written_parts_are_not_read(store):
    (store.scratch("work") / ".0123").write_bytes(b"torn")
    assert dict(store.parts("work")) == {}


def test_a_store_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot write results to .*file.*--out"):
        Store(tmp_path / "file" / "run").open()


def hold(root: str, held, release) -> None:
    with Store(root).lock():
        held.set()
        release.wait(30)


def test_one_run_at_a_time_and_the_lock_goes_with_the_process(store):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=hold, args=(str(store.root), held, release))
    other.start()
    assert held.wait(60)
    with pytest.raises(StoreError, match="another run"), store.lock():
        pass
    other.kill()
    other.join()
    with store.lock():
        pass


def write_slowly(root: str, cell: str, begun, release) -> None:
    """A record whose writing takes as long as it is let, and beside it a plan, a failure and a part."""
    store = Store(root)

    def slow(path: Path) -> None:
        path.write_bytes(b"half")
        with (
            atomic_file(store.root / "plan.json") as plan,
            atomic_file(store.root / "failures" / f"{cell}.json") as failure,
            atomic_file(store.scratch("work") / f"part-{cell}.safetensors") as part,
        ):
            for temporary in (plan, failure, part):
                temporary.write_bytes(b"half")
            begun.set()
            release.wait(60)

    store.write(cell, {}, {"scores.parquet": slow})


def temporaries(store: Store) -> set[Path]:
    return {path for path in store.root.rglob(".*") if is_temporary(path)}


def test_the_sweep_removes_what_a_killed_writer_left_and_not_what_a_living_one_writes(store):
    store.write("cell", {}, {})
    store.put_part("work", {"test-0-64": {"a": np.ones(1)}})
    users = [store.root / ".notes", store.root / "cells" / ".notes", store.scratch("work") / ".notes"]
    for path in users:
        path.write_text("of the user's")
    context = multiprocessing.get_context("spawn")
    events = [(context.Event(), context.Event()) for _ in range(2)]
    killed, living = (
        context.Process(target=write_slowly, args=(str(store.root), name, *pair))
        for name, pair in zip(("killed", "living"), events, strict=True)
    )
    found = []
    for process, (begun, _) in zip((killed, living), events, strict=True):
        process.start()
        assert begun.wait(60)
        found.append(temporaries(store))
    assert (len(found[0]), len(found[1])) == (4, 8)
    killed.kill()
    killed.join()
    with store.lock():
        assert temporaries(store) == found[1] - found[0]
    events[1][1].set()
    living.join(60)
    assert living.exitcode == 0
    assert temporaries(store) == set()
    assert store.has("living")
    assert not store.has("killed")
    assert all(path.read_text() == "of the user's" for path in users)
    assert store.has("cell")
    assert [chunk for chunk, _ in store.parts("work")] == ["test-0-64"]


def write_often(root: str, times: int) -> None:
    for number in range(times):
        Store(root).write("cell", {"number": number}, {"scores.parquet": score_table(columns())})


def test_writers_of_one_record_do_not_mind_each_other(store):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_often, args=(str(store.root), 40)) for _ in range(2)]
    for process in writers:
        process.start()
    for process in writers:
        process.join(120)
    assert [process.exitcode for process in writers] == [0, 0]
    assert store.has("cell")
    assert temporaries(store) == set()


def test_a_damaged_part_is_as_good_as_none(store):
    store.put_part("work", {"a": {"x": np.ones(3)}})
    (path,) = store.scratch("work").glob("part-*")
    path.write_bytes(path.read_bytes()[:-5])
    assert dict(store.parts("work")) == {}
    assert not path.exists()


@pytest.mark.parametrize("damage", ["truncated", "deleted", "record"])
def test_a_damaged_record_is_as_good_as_none(store, damage):
    store.write("cell", {}, {"scores.parquet": score_table(columns())})
    path = store.path("cell") / ("record.json" if damage == "record" else "scores.parquet")
    assert store.has("cell")
    if damage == "deleted":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-3])
    assert not store.has("cell")
    store.write("cell", {}, {"scores.parquet": score_table(columns())})
    assert store.has("cell")


@pytest.mark.parametrize("write", ["write", "put_part", "keep", "fail"])
def test_whatever_a_full_disk_stops_says_what_is_kept_and_what_to_do(store, monkeypatch, write):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("write_record", "write_sealed", "write_verified_json"):
        monkeypatch.setattr(f"farout.study.store.{name}", full)
    inputs = {"write": ({}, {}), "put_part": ({"a": {"x": np.ones(1)}},), "keep": ("name", {}), "fail": ({},)}
    with pytest.raises(
        StoreError, match=r"No space left on device.*finished results are kept: free some space"
    ) as said:
        getattr(store, write)("cell", *inputs[write])
    assert str(store.root) in str(said.value)


def test_a_full_disk_is_known_by_its_number_also_from_safetensors(tmp_path):
    text = "Error while serializing: I/O error: No space left on device (os error 28)"
    with pytest.raises(OSError, match="No space left") as said, atomic_file(tmp_path / "weights"):
        raise SafetensorError(text)
    assert said.value.errno == errno.ENOSPC
    assert str(tmp_path / "weights") in str(said.value)
