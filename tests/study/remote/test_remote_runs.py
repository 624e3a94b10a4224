"""Runs at an address: kept whole, continued elsewhere, never in two versions."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest

from farout.files import holders
from farout.files.owners import Owner
from farout.study import packing
from farout.study.packs import Pack
from farout.study.records import write_verified_json
from farout.study.remote import owner, session
from farout.study.remote.address import Remote, RemoteError
from farout.study.remote.fetching import fetch
from farout.study.remote.layout import is_kept
from farout.study.remote.owner import RemoteLock, is_active
from farout.study.remote.sending import Sender
from farout.study.remote.session import kept_at, local_folder, readable
from farout.study.store import Store, StoreError, array_file, score_table
from helpers import faulty_files
from helpers.faulty_files import FaultyFiles

FAULTY = "faulty://bucket/run"
CELLS = ["one", "two", "three"]
FAR = f"{'0' * 16}_1_1"
"""A process on another machine."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(owner, "SETTLE", 0.0)
    monkeypatch.setattr(owner, "BEAT", 0.02)
    monkeypatch.setattr(session, "PAUSE", 0.0)
    faulty_files.reset()
    move(monkeypatch, tmp_path / "first")


def move(monkeypatch: pytest.MonkeyPatch, machine: Path) -> None:
    """Go on with another, or the same, cache folder."""
    monkeypatch.setenv("FAROUT_DATA", str(machine))


@pytest.fixture(params=["memory", "file", "faulty"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"file://{tmp_path}/far/run" if request.param == "file" else f"{request.param}://bucket/{uuid.uuid4().hex}"


def put(store: Store, cell: str, value: float = 1.0) -> None:
    store.write(cell, {"value": value}, {"scores.parquet": score_table({"score": np.full(4, value)})})


@contextlib.contextmanager
def running(address: str) -> Iterator[Store]:
    """A run at an address."""
    store = Store(local_folder(address)).open()
    with store.lock(), kept_at(address, store):
        yield store


def fill(store: Store) -> None:
    for number, cell in enumerate(CELLS):
        put(store, cell, number)
    store.write("model", {}, {"weights.safetensors": array_file({"w": np.eye(2)})})
    write_verified_json(store.root / "plan.json", {"rows": []})
    store.put_part("work", {"chunk": {"x": np.ones(2)}})
    store.fail("four", {"reason": "why", "traceback": "because"})


def compute(address: str, then: Callable[[], None]) -> None:
    """A run, at whose end something happens."""
    with running(address) as store:
        fill(store)
        then()


def values(store: Store) -> dict[str, float]:
    return {cell: store.facts(cell)["value"] for cell in CELLS if store.has(cell)}


def files(address: str) -> set[str]:
    return set(Remote(address).list())


def test_a_run_goes_on_on_another_machine(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(address) as store:
        fill(store)
        first = store.root
    there = files(address)
    assert sum(path.startswith("packs/") for path in there) == 1
    assert {"plan.json", "failures/four.json", "cells/model/record.json", "cells/model/weights.safetensors"} < there
    assert len(there) == 6  # and the part
    move(monkeypatch, tmp_path / "second")
    with running(address) as store:
        assert store.root != first
        assert values(store) == {"one": 0, "two": 1, "three": 2}
        assert store.arrays("model", "weights.safetensors")["w"].tolist() == [[1, 0], [0, 1]]
        assert [chunk for chunk, _ in store.parts("work")] == ["chunk"]
        assert (store.failure("four") or {})["reason"] == "why"
        store.forget("work")
        put(store, "four", 4)
    assert not [path for path in files(address) if path.startswith(("partial/", "failures/"))]
    move(monkeypatch, tmp_path / "first")
    folder = readable(address)
    assert folder == first
    assert Store(folder).facts("four")["value"] == 4


def test_what_is_there_already_is_not_fetched_or_sent_again(tmp_path: Path) -> None:
    address = FAULTY
    with running(address) as store:
        fill(store)
    FaultyFiles.written.clear()
    with running(address) as store:
        assert len(values(store)) == 3
    assert {path.rpartition("/")[2] for path in FaultyFiles.written} == {"lock.json"}


def test_packs_that_were_merged_are_removed_there(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "RECORDS", 3)
    for number, cell in enumerate(CELLS):
        with running(address) as store:
            write_verified_json(store.root / "plan.json", {"rows": []})
            put(store, cell, number)
    (path,) = (path for path in files(address) if path.startswith("packs/"))
    assert set(Pack(store.root / path, store.root).entries) == set(CELLS)


def test_removed_results_are_removed_there_and_lost_ones_are_not(address: str) -> None:
    with running(address) as store:
        fill(store)
    with running(address) as store:
        store.remove_results(["one", "model"])
    assert not [path for path in files(address) if path.startswith("cells/")]
    with running(address) as store:
        assert values(store) == {"two": 1, "three": 2}
        shutil.rmtree(store.root / "packs")  # by somebody
    with running(address) as store:
        assert values(store) == {"two": 1, "three": 2}


def test_where_machines_differ_the_address_counts(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first machine was cut off before it sent its results; another has computed them meanwhile."""
    store = Store(local_folder(address)).open()
    with store.lock():
        for cell in CELLS:
            put(store, cell, 1)
            store.pack(1)
        put(store, "unsent", 1)
    move(monkeypatch, tmp_path / "second")
    with running(address) as store:
        write_verified_json(store.root / "plan.json", {"rows": []})
        put(store, "one", 11)
        put(store, "two", 12)
    move(monkeypatch, tmp_path / "first")
    with running(address) as store:
        assert values(store) == {"one": 11, "two": 12, "three": 1}
        assert sum(len(pack.entries) for pack in store.packs.packs()) == 3, "each is in one pack"
        assert store.has("unsent")
    move(monkeypatch, tmp_path / "third")
    store = Store(readable(address))
    assert values(store) == {"one": 11, "two": 12, "three": 1}
    assert store.facts("unsent")["value"] == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_killed_run_loses_only_what_was_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"file://{tmp_path}/far/run"
    monkeypatch.setattr(session, "SEND_SECONDS", 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        with running(address) as store:
            fill(store)
            time.sleep(600)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(packs(tmp_path)) != 1:
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert (tmp_path / "far/run/lock.json").exists()
    move(monkeypatch, tmp_path / "second")
    with running(address) as store:  # at once: the process is known to be dead
        assert len(values(store)) >= 1
    assert all(Pack(path, path.parent).entries for path in packs(tmp_path))


def packs(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "far/run/packs").glob("*.pack"))


# The lock


def test_one_run_at_a_time(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(address):
        move(monkeypatch, tmp_path / "second")
        assert is_active(Remote(address))
        why = rf"another run is writing to {address}; it was last active \d+ s ago"
        with pytest.raises(StoreError, match=why), running(address):
            pass
    assert not is_active(Remote(address))
    with running(address):
        pass


def lock_of_another(address: str, age: float = 0.0, **facts: object) -> None:
    found = {"run": "another", "owner": FAR, "beat": 1, "time": time.time() - age, **facts}
    Remote(address).write("lock.json", json.dumps(found).encode())


def test_a_lock_of_another_machine_holds_until_it_is_silent(address: str) -> None:
    assert Owner.parse(FAR) is not None
    lock_of_another(address, 40)
    with pytest.raises(StoreError, match="last active 40 s ago"), running(address):
        pass
    lock_of_another(address, 1000)
    with running(address):
        assert is_active(Remote(address))
    Remote(address).write("lock.json", b"damaged")
    with running(address):
        pass


def test_a_lock_that_is_still_written_holds_though_its_clock_is_wrong(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_of_another(address, 1000)
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            lock_of_another(address, 1000, beat=2)

    monkeypatch.setattr(owner.time, "sleep", sleep)
    with pytest.raises(StoreError, match="another run is writing"), running(address):
        pass


def test_without_exclusive_creation_the_last_writer_holds_the_lock() -> None:
    FaultyFiles.exclusive = False

    def faster(path: str) -> None:
        FaultyFiles.after_write = None
        lock_of_another(FAULTY)

    FaultyFiles.after_write = faster
    with pytest.raises(StoreError, match="another run is writing"), running(FAULTY):
        pass
    lock_of_another(FAULTY, 1000)
    with running(FAULTY):
        pass


def test_a_run_whose_lock_was_taken_sends_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    address = FAULTY
    why = r"another run has taken over .* the same command sends them"
    with pytest.raises(StoreError, match=why):
        compute(address, lambda: lock_of_another(address))
    assert files(address) == {"lock.json"}
    lock_of_another(address, 1000)
    with running(address) as store:
        assert len(values(store)) == 3
    assert "plan.json" in files(address)


def test_a_lock_that_is_lost_is_not_removed() -> None:
    remote = Remote("memory://bucket/lost")
    lock = RemoteLock(remote)
    with lock.held():
        lock_of_another(remote.address)
        lock.beat()
        assert lock.lost
    assert json.loads(remote.read("lock.json"))["run"] == "another"


# Faults


def test_writes_that_fail_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    address = FAULTY
    with running(address) as store:
        fill(store)
        FaultyFiles.failing = session.TRIES - 1
    assert len(files(address)) == 6


def test_a_transfer_that_ends_anywhere_leaves_whole_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two small packs become one, a result is removed, another with weights is new: every write may be the last."""
    monkeypatch.setattr(packing, "RECORDS", 4)
    seen = set()
    for writes in range(100):
        faulty_files.reset()
        remote, store = Remote(FAULTY), Store(tmp_path / f"run{writes}").open()
        with store.lock():
            sender = Sender(remote, store, {})
            for number, cell in enumerate(CELLS):
                put(store, cell, number)
                sender.send(unfinished=False)
            put(store, "four")
            put(store, "five")
            store.write("model", {}, {"weights.safetensors": array_file({"w": np.eye(2)})})
            store.remove_results(["one"])
            FaultyFiles.working = writes
            with contextlib.suppress(RemoteError):
                sender.send(unfinished=False)
            complete, FaultyFiles.working = FaultyFiles.working >= 0, 10**9
        other = Store(tmp_path / f"other{writes}").open()
        with other.lock():
            fetch(remote, other, unfinished=True)
        everything = (*CELLS, "four", "five", "model")
        found = [cell for cell in everything if other.has(cell)]
        assert {"two", "three"} <= set(found)
        assert values(other) == {cell: number for number, cell in enumerate(CELLS) if cell in found}
        assert [other.damaged(cell) for cell in everything] == [None] * 6
        assert other.packs.damaged() == []
        assert not complete or found == ["two", "three", "four", "five", "model"]
        seen.add(tuple(found))
        if complete:
            break
    assert writes > 5
    assert len(seen) >= 3


def test_writes_that_fail_for_good_keep_the_results_here() -> None:
    address = FAULTY
    why = r"network is down.*the results are kept in .* the same command sends them"
    with pytest.raises(StoreError, match=why):
        compute(address, lambda: setattr(FaultyFiles, "failing", 10**6))
    FaultyFiles.failing = 0
    Remote(address).remove("lock.json")  # it could not be removed; the process of a real run would have ended
    with running(address) as store:
        assert len(values(store)) == 3
    assert {path.partition("/")[0] for path in files(address)} >= {"packs", "cells", "plan.json"}


def test_an_address_that_cannot_be_written_fails_before_the_work() -> None:
    FaultyFiles.failing = 10**6
    with pytest.raises(RemoteError, match=r"cannot write faulty://bucket/run .*network is down"), running(FAULTY):
        pytest.fail("the work began")


def test_a_failing_write_during_the_run_is_logged_once_and_mended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    address = FAULTY
    monkeypatch.setattr(session, "SEND_SECONDS", 0.005)
    monkeypatch.setattr(owner, "BEAT", 60.0)
    with caplog.at_level(logging.WARNING, "farout"), running(address) as store:
        FaultyFiles.failing = 5
        fill(store)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not any(path.startswith("packs/") for path in files(address)):
            time.sleep(0.01)
        assert any(path.startswith("packs/") for path in files(address)), "sent while the run goes on"
    assert sum("the network is down" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("damage", ["half", "byte", "index"])
def test_a_damaged_pack_is_found_on_arrival(
    damage: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(address) as store:
        fill(store)
    remote = Remote(address)
    (path,) = (path for path in files(address) if path.startswith("packs/"))
    content = bytearray(remote.read(path))
    content[{"half": 0, "byte": 30, "index": -40}[damage]] ^= damage != "half"
    remote.write(path, bytes(content[: len(content) // 2] if damage == "half" else content))
    move(monkeypatch, tmp_path / "second")
    store = Store(readable(address))
    assert len(values(store)) == (2 if damage == "byte" else 0)
    assert bool(store.packs.damaged()) == (damage != "byte")
    move(monkeypatch, tmp_path / "first")  # here the pack is whole
    assert len(values(Store(local_folder(address)))) == 3


def test_a_damaged_pack_is_renamed_there_too(address: str) -> None:
    with running(address) as store:
        fill(store)
    remote = Remote(address)
    (path,) = (path for path in files(address) if path.startswith("packs/"))
    content = remote.read(path)
    remote.write(path, content[:-9])
    shutil.rmtree(store.root)
    with running(address) as store:
        assert len(store.packs.set_aside()) == 1
        put(store, "one")
    assert remote.read(path.replace(".pack", ".damaged")) == content[:-9]
    assert path not in files(address)
    with running(address) as store:
        assert store.packs.damaged() == []
        assert values(store) == {"one": 1}


def test_a_record_that_was_sent_in_part_is_sent_again(address: str) -> None:
    with running(address) as store:
        fill(store)
    remote = Remote(address)
    remote.remove("cells/model/record.json")
    remote.write("cells/model/weights.safetensors", b"of an earlier result")
    with running(address):
        pass
    shutil.rmtree(store.root)
    assert Store(readable(address)).has("model")


def test_the_lock_is_written_while_files_are_fetched_and_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(FAULTY):
        FaultyFiles.written.clear()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(FaultyFiles.written) < 3:
            time.sleep(0.01)
        assert len(FaultyFiles.written) >= 3


def test_a_damaged_copy_is_fetched_again(address: str) -> None:
    with running(address) as store:
        fill(store)
    (path,) = store.packs.path.glob("*.pack")
    path.write_bytes(path.read_bytes()[:-3])
    (store.path("model") / "weights.safetensors").unlink()
    assert len(values(Store(readable(address)))) == 3
    assert Store(store.root).has("model")


def test_other_files_are_left_alone(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote, others = Remote(address), ["notes.txt", "packs/readme", "cells/a/b/c", "cells/.x/y", "videos/plan.json"]
    for path in others:
        remote.write(path, b"of the user's")
    with running(address) as store:
        fill(store)
    assert [remote.read(path) for path in others] == [b"of the user's"] * 5
    move(monkeypatch, tmp_path / "second")
    folder = readable(address)
    assert not any((folder / path).exists() for path in others)
    for path in ("../x", "cells/../x", "cells/a/../../x", "/etc/passwd", "packs/../plan.json", "cells/a\\b/c"):
        assert not is_kept(path)


def test_a_run_on_this_machine_is_read_where_it_is(address: str) -> None:
    with running(address) as store:
        fill(store)
        Remote(address).write("plan.json", b"{}")
        assert holders(store.root / ".lock")
        assert values(Store(readable(address))) == values(store)


def test_an_address_without_a_run(address: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=rf"{address} holds no run \(no plan.json\)"):
        readable(address)
    assert readable(tmp_path) == tmp_path
    assert readable("runs/study") == Path("runs/study")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("nothing://bucket/run", "there is no file system 'nothing'"),
        ("memory://", "has no folder; give one for the run"),
        ("memory:///", "has no folder; give one for the run"),
    ],
)
def test_odd_addresses(place: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Remote(place)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(ImportError, match=r"s3://bucket/run needs a package that is not installed: pip install s3fs"):
        Remote("s3://bucket/run")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'needs the package fsspec: pip install "farout\[remote\]"'):
        Remote("s3://bucket/run")
