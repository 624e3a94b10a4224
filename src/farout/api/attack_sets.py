"""Attacked images written to disk: 8-bit, with labels and the success of each; a stopped call resumes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from farout.data.arrays import as_bytes
from farout.data.writing.array_files import write_npz
from farout.data.writing.facts import read_facts
from farout.files import check_path, has_file, write_json
from farout.progress import Listener
from farout.study.cells.attack import AttackCell
from farout.study.engines.run import run
from farout.study.sources.attacked import AttackedImages, AttackedSet
from farout.study.store import Store
from farout.tensors import chunks


def write(
    cell: AttackCell, out: Path, *, workers: int = 0, device: str = "cpu",
    plugins: tuple[str, ...] = (), progress: Listener | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Attack the images, and write OUT/NAME.npz with `images`, `labels`, `clean_correct` and `success`.

    OUT/NAME.json describes the set. Files of the same attack are reused; OUT/.NAME.unfinished holds unfinished work.
    """
    if out.is_file():
        raise ValueError(f"{out} is a file; expected a folder for the set with --out")
    target, manifest = (out / f"{cell.attack.name}.{ending}" for ending in ("npz", "json"))
    store = Store(check_path(out / f".{cell.attack.name}.unfinished"))
    if has_file(target) | has_file(manifest):
        facts = read_facts(manifest) if has_file(manifest) else {}
        if facts.get("id") != cell.id:
            other = ", ".join(key for key, value in _identity(cell).items() if facts.get(key) != value)
            raise ValueError(
                f"{target} holds another set (other {other or 'version'}; see {manifest.name}); choose another folder "
                "with --out"
            )
        if has_file(target) and facts.keys() >= _SHOWN:
            store.remove()  # a call that was killed may have left it
            return facts
    with store.open().lock():
        outcome = run([cell], store, workers=workers, device=device, plugins=plugins, progress=progress)
        if outcome.failed:
            raise RuntimeError("; ".join(dict.fromkeys(outcome.failed.values())))
        images = AttackedImages(cell, rounded=True).open(store)
        assert isinstance(images, AttackedSet)
        facts = _facts(cell, images)
        write_json(manifest, facts)
        _write(target, images)  # last: once it is there, the set is whole
    store.remove()
    return facts


_SHOWN = {"images", "clean_correct", "success_of_clean_correct"}
"""Facts of the set that the command prints."""


def _identity(cell: AttackCell) -> dict[str, Any]:
    """Return the facts that distinguish the set from others."""
    return {
        "attack": cell.attack.identity(),
        "network": cell.network and {"label": cell.network.label, "identity": cell.network.identity()},
        "fingerprint": cell.images.about.fingerprint,
        "seed": cell.seed,
    }


def _facts(cell: AttackCell, images: AttackedSet) -> dict[str, Any]:
    known = images.attributes
    correct = known["clean_correct"]
    return {
        "id": cell.id,
        "name": images.name,
        **_identity(cell),
        "largest_change": float(known["linf"].max()),
        "images": len(images),
        "clean_correct": int(correct.sum()),
        "wrong_before_rounding": int(known["before_rounding"].sum()),
        "success": int(known["success"].sum()),
        "success_of_clean_correct": int((known["success"] & correct).sum()),
    }


def _write(path: Path, images: AttackedSet) -> None:
    channels, height, width = images.shape
    beside = {name: images.attributes[name].astype(np.int64) for name in ("clean_correct", "success")}
    if images.labels is not None:
        beside["labels"] = images.labels
    write_npz(path, (len(images), height, width, channels), _blocks(images), beside, compress=True)


def _blocks(images: AttackedSet) -> Iterator[bytes]:
    for part in chunks(len(images)):
        yield as_bytes(images.batch(np.arange(part.start, part.stop))).tobytes()
