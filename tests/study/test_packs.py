"""Packs: many records in one file, read, damaged, replaced and removed like records in folders."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import signal
import struct
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farout.files import UnsafePath, files_in
from farout.study import packing
from farout.study.packs import MARK, Pack
from farout.study.records import Damaged
from farout.study.snapshot import Snapshot
from farout.study.store import Store, array_file, score_table

CELLS = [f"cell{number}" for number in range(6)]


def put(store: Store, cell: str, value: float = 1.0) -> None:
    files = {"scores.parquet": score_table({"index": np.arange(4), "score": np.full(4, value)})}
    store.write(cell, {"value": value}, {**files, "found.safetensors": array_file({"a": np.full(3, value)})})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Six records in folders."""
    store = Store(tmp_path / "run").open()
    for number, cell in enumerate(CELLS):
        put(store, cell, number)
    return store


def pack(store: Store, at_least: int = 1) -> list[Path]:
    """Pack what lies in folders; the packs."""
    with store.lock():
        store.pack(at_least)
    return packs(store)


def packs(store: Store) -> list[Path]:
    return sorted((store.root / "packs").glob("*.pack"))


def folders(store: Store) -> list[str]:
    return sorted(path.name for path in (store.root / "cells").iterdir())


def contents(store: Store, cells: list[str] = CELLS) -> dict[str, bytes]:
    return {
        f"{cell}/{name}": store.read(cell, name)
        for cell in cells
        if store.has(cell)
        for name in store.facts(cell)["files"]
    }


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def place(path: Path, cell: str, name: str, root: Path) -> tuple[int, int]:
    """Offset and size of a file in a pack."""
    return Pack(path, root).entries[cell].files[name]


def test_packed_records_read_as_before(store: Store) -> None:
    facts, before = {cell: store.facts(cell) for cell in CELLS}, contents(store)
    assert len(pack(store)) == 1
    assert folders(store) == []
    for reader in (store, Store(store.root), Snapshot(store.root)):
        assert {cell: reader.facts(cell) for cell in CELLS} == facts
        assert contents(reader) == before
        assert reader.scores("cell3").tolist() == [3.0] * 4
        assert reader.columns("cell3") == ["index", "score"]
        assert reader.arrays("cell4", "found.safetensors")["a"].tolist() == [4.0] * 3
        assert reader.arrays("cell4", "none.safetensors") == {}
        assert reader.parquet("cell2").metadata.num_rows == 4
        assert reader.content("cell1") == store.content("cell1")
        assert (reader.has("none"), reader.damaged("none")) == (False, None)
        with pytest.raises(FileNotFoundError, match="no result"):
            reader.facts("none")


def test_a_packed_file_that_is_opened_by_its_path_is_copied_out_of_the_run(store: Store) -> None:
    before = store.file("cell1", "found.safetensors").read_bytes()
    pack(store)
    reader = Store(store.root)
    copy = reader.file("cell1", "found.safetensors")
    assert copy.read_bytes() == before
    assert not copy.is_relative_to(store.root)
    del reader
    assert not copy.exists()


def test_a_few_records_stay_folders_and_so_do_large_ones_and_models(store: Store) -> None:
    assert pack(store, at_least=7) == []
    large = {"scores.parquet": lambda path: path.write_bytes(b"x" * (packing.LARGEST + 1))}
    store.write("large", {}, large)
    store.write("model", {}, {"weights.safetensors": array_file({"w": np.eye(2)})})
    store.write("time", {"seconds": 1}, {})
    pack(store)
    assert folders(store) == ["large", "model"]
    assert store.facts("time")["seconds"] == 1


def test_only_the_holder_of_the_lock_packs(store: Store) -> None:
    store.pack(1)
    with store.lock():
        Store(store.root).pack(1)
    assert packs(store) == []
    assert folders(store) == CELLS


def test_a_folder_takes_precedence_and_replaces_the_packed_record(store: Store) -> None:
    pack(store)
    put(store, "cell2", 22)
    assert Store(store.root).scores("cell2").tolist() == [22.0] * 4
    new, old = sorted(pack(store), key=lambda path: len(Pack(path, store.root).entries))
    assert list(Pack(new, store.root).entries) == ["cell2"]
    assert "cell2" not in Pack(old, store.root).entries
    assert Store(store.root).scores("cell2").tolist() == [22.0] * 4
    assert folders(store) == []


def test_removed_records_are_gone_from_packs_and_folders(store: Store) -> None:
    before = contents(store, ["cell0", "cell5"])
    pack(store)
    put(store, "cell2", 22)  # in both
    store.remove_results(["cell1", "cell2", "cell3", "cell4"])
    for reader in (store, Store(store.root)):
        assert [cell for cell in CELLS if reader.has(cell)] == ["cell0", "cell5"]
        assert contents(reader) == before
    store.remove_results(["cell0", "cell5"])
    assert (packs(store), folders(store)) == ([], [])


def test_small_packs_are_merged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "RECORDS", 8)
    for number in range(6, 12):
        put(store, f"more{number}", number)
        pack(store)
    sizes = sorted(len(Pack(path, store.root).entries) for path in packs(store))
    assert sizes == [1, 1, 1, 1, 8]
    assert len(contents(store, [*CELLS, *(f"more{number}" for number in range(6, 12))])) == 24


def test_many_records_fill_several_packs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MOST_RECORDS", 4)
    before = contents(store)
    assert sorted(len(Pack(path, store.root).entries) for path in pack(store)) == [2, 4]
    assert contents(store) == before


@pytest.mark.parametrize("name", ["record.json", "scores.parquet", "found.safetensors"])
@pytest.mark.parametrize("where", [0, 0.5, 1])
def test_a_changed_byte_damages_one_record_and_names_it(store: Store, name: str, where: float) -> None:
    (path,) = pack(store)
    assert store.has("cell3")
    offset, size = place(path, "cell3", name, store.root)
    flip(path, offset + round(where * (size - 1)))
    for reader in (store, Store(store.root)):
        assert [cell for cell in CELLS if not reader.has(cell)] == ["cell3"]
        assert reader.damaged("cell3") == f"{path}/cell3/{name} is damaged (its checksum does not match)"
        with pytest.raises(Damaged, match=name):
            reader.scores("cell3")
    put(store, "cell3", 3)
    assert [store.damaged(cell) for cell in CELLS] == [None] * 6
    assert sum(len(Pack(one, store.root).entries) for one in pack(store)) == 6
    assert all(map(Store(store.root).has, CELLS))


def test_packing_and_removing_do_not_launder_damage(store: Store) -> None:
    (path,) = pack(store)
    flip(path, place(path, "cell3", "record.json", store.root)[0])
    flip(path, place(path, "cell4", "scores.parquet", store.root)[0])
    store.remove_results(["cell0"])
    assert [cell for cell in CELLS[1:] if not store.has(cell)] == ["cell3", "cell4"]
    put(store, "fresh")
    flip(store.path("fresh") / "scores.parquet", 9)
    put(store, "other")
    pack(store)
    assert folders(store) == ["fresh"]
    assert "fresh/scores.parquet is damaged" in str(store.damaged("fresh"))
    assert store.has("other")


@pytest.mark.parametrize("damage", ["index", "length", "mark", "half", "tail", "empty", "renamed"])
def test_a_damaged_index_names_the_pack(store: Store, damage: str) -> None:
    (path,) = pack(store)
    whole = path.read_bytes()
    index = whole.index(b'{"format"')
    match damage:
        case "index" | "length" | "mark":
            flip(path, {"index": index + 30, "length": len(whole) - 16, "mark": len(whole) - 3}[damage])
        case "half" | "tail" | "empty":
            path.write_bytes(whole[: {"half": len(whole) // 2, "tail": len(whole) - 5, "empty": 0}[damage]])
        case "renamed":
            path = path.rename(path.with_name("0" * 64 + ".pack"))
    reader = Store(store.root)
    assert [cell for cell in CELLS if reader.has(cell)] == []
    (why,) = reader.packs.damaged()
    assert why.startswith(f"{path} is damaged (")
    assert why.endswith("): the results in it are missing")
    assert reader.packs.set_aside() == [why]
    assert reader.packs.damaged() == []
    assert path.with_suffix(".damaged").exists()


def test_a_pack_that_is_damaged_after_it_was_read_is_found(store: Store) -> None:
    (path,) = pack(store)
    assert store.has("cell0")
    path.write_bytes(path.read_bytes()[:-1])
    assert not store.has("cell0")
    assert len(store.packs.damaged()) == 1


INDEX = {"format": 1, "records": {"cell": ["0" * 64, [["record.json", 0, 4]]]}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"format": 2}, "it has format 2, and this version reads format 1"),
        ({"records": {"../cell": INDEX["records"]["cell"]}}, "names that are not valid"),
        ({"records": {"cell": ["", [["record.json", 0, 4], ["../x", 0, 1]]]}}, "names that are not valid"),
        ({"records": {"cell": ["", [["record.json", 0, 9]]]}}, "outside of the file"),
        ({"records": {"cell": ["", [["record.json", -1, 2]]]}}, "outside of the file"),
        ({"records": {"cell": ["", [["record.json", 2, -1]]]}}, "outside of the file"),
        ({"records": {"cell": ["", [["record.json", 0, True]]]}}, "outside of the file"),
        ({"records": {"cell": ["", [["record.json", 0, 4], ["x", 0, 4]]]}}, "lists files twice"),
        ({"records": {"cell": ["", [["x", 0, 4]]]}}, "without a record"),
        ({"records": {"cell": ["", 3]}}, "cannot be read"),
        ({"records": 3}, "cannot be read"),
    ],
)
def test_a_strangers_index_is_checked(tmp_path: Path, change: dict[str, object], why: str | None) -> None:
    index = json.dumps({**INDEX, **change}).encode()
    path = tmp_path / f"{hashlib.sha256(index).hexdigest()}.pack"
    path.write_bytes(b"{} 3" + index + struct.pack("<Q8s", len(index), MARK))
    if why is None:
        assert list(Pack(path, tmp_path).entries) == ["cell"]
        return
    with pytest.raises(Damaged, match=why):
        Pack(path, tmp_path)


@pytest.mark.parametrize("what", ["folder", "pack"])
def test_links_are_refused(store: Store, tmp_path: Path, what: str) -> None:
    (path,) = pack(store)
    hit = path if what == "pack" else path.parent
    hit.rename(tmp_path / "elsewhere")
    hit.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePath, match=f"{hit} is a symbolic link"):
        Store(store.root).has("cell0")


def test_a_reader_sees_records_move(store: Store) -> None:
    """A record that is packed, or whose pack is replaced, between two steps of a reader, is found again."""
    reader, before = Snapshot(store.root), contents(store)
    assert contents(reader) == before
    pack(store)
    assert contents(reader) == before
    store.remove_results(["cell5"])  # replaces the pack
    assert {name: content for name, content in before.items() if "cell5" not in name} == contents(reader, CELLS[:5])


def test_a_record_that_is_packed_while_it_is_verified_is_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from farout.study import records

    plain, moved = records._verify_file, []

    def packed_meanwhile(path: Path, expected: dict[str, object]) -> None:
        if not moved:
            moved.append(pack(Store(store.root)))
        plain(path, expected)

    monkeypatch.setattr(records, "_verify_file", packed_meanwhile)
    assert Store(store.root).facts("cell2")["value"] == 2
    assert moved


def killed(root: Path, after: int, action: Callable[[Store], None]) -> bool:
    """Act on a locked store in a process that kills itself at the n-th change on disk; was it killed?"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads of this process hold no locks
        child = os.fork()
    if child == 0:
        _act(root, after, action)
    status = os.waitpid(child, 0)[1]
    assert status == 0 or os.WIFSIGNALED(status), "the action failed"
    return status != 0


def _act(root: Path, after: int, action: Callable[[Store], None]) -> None:
    """Act, and end this process."""
    left = iter(range(after))

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return counting

    try:
        store = Store(root)
        with store.lock():
            for name in ("rename", "replace", "unlink", "rmdir", "fsync"):
                setattr(os, name, counted(getattr(os, name)))
            action(store)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def crowded(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    """A run with two small packs, one record that is newer in a folder, two that are only there; and its content."""
    store = Store(tmp_path / "crowded").open()
    for cells in (CELLS[:2], CELLS[2:4]):
        for cell in cells:
            put(store, cell, 1)
        pack(store)
    for number, cell in enumerate(("cell2", "cell4", "cell5")):
        put(store, cell, 20 + number)
    assert len(packs(store)) == 2
    return store.root, contents(store)


def kill_everywhere(root: Path, action: Callable[[Store], None], check: Callable[[Store], None]) -> tuple[int, Store]:
    """Kill an action at every change on disk, check what is left each time, and repeat the action to its end."""
    for after in itertools.count():
        copy = shutil.copytree(root, root.with_name(f"copy{after}"))
        was_killed = killed(copy, after, action)
        check(Store(copy))
        store = Store(copy)
        with store.lock():
            action(store)
        check(store)
        assert [path for path in files_in(copy) if path.name.startswith(".") and path.name != ".lock"] == []
        if not was_killed:
            return after, store
        shutil.rmtree(copy)
    raise AssertionError


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_kill_while_records_are_packed_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, before = crowded(tmp_path)
    monkeypatch.setattr(packing, "RECORDS", 4)
    times, store = kill_everywhere(
        root, lambda store: store.pack(1), lambda store: assert_equal(contents(store), before)
    )
    assert times > 15
    assert (len(packs(store)), folders(store)) == (1, [])
    assert len(Pack(packs(store)[0], store.root).entries) == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_kill_while_records_are_removed_leaves_each_as_it_was_or_removed(tmp_path: Path) -> None:
    (root, before), gone = crowded(tmp_path), ["cell0", "cell2", "cell4"]

    def check(store: Store) -> None:
        found = contents(store)
        removed = [cell for cell in gone if not store.has(cell)]
        assert_equal(found, {name: one for name, one in before.items() if name.split("/")[0] not in removed})
        assert [store.damaged(cell) for cell in CELLS] == [None] * 6

    times, store = kill_everywhere(root, lambda store: store.remove_results(gone), check)
    assert times > 10
    assert [cell for cell in CELLS if store.has(cell)] == ["cell1", "cell3", "cell5"]


def assert_equal(found: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []
