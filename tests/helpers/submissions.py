"""A submission of a small run: three detectors on two untrained networks, two protocols that share their inliers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from farout.api.run import run
from farout.files import sha256
from farout.leaderboard import pack
from farout.leaderboard.submission import MANIFEST
from farout.networks import create, save_weights
from farout.protocols.document import document
from farout.report.html import write_report
from farout.study.records import read_verified_json, verify_record, write_record, write_verified_json
from farout.study.results import Results
from farout.study.spec import StudySpec
from farout.study.store import SCORES, score_table

NETWORKS = ("first", "second")


def spec(folder: Path, **changes: Any) -> StudySpec:
    """The study; its networks are written to the folder."""
    for seed, name in enumerate(NETWORKS):
        save_weights(create("lenet", 4, 32, seed=seed), folder / f"{name}.safetensors")
    networks = [{"name": "lenet", "label": name, "weights": str(folder / f"{name}.safetensors")} for name in NETWORKS]
    inliers = {key: {"name": "toy", "split": key, "limit": 520} for key in ("train", "val", "test")}
    value = {
        "name": "small", "inliers": inliers, "outliers": [{"name": "toy", "split": "test/ood_cls", "limit": 80}],
        "networks": networks, "detectors": ["msp", "mls", {"name": "knn", "k": 5}],
        "protocols": ["clean", {"name": "rood", "setups": {"foggy": ["fog"]}}], "budget": "quick",
    }  # fmt: skip
    return StudySpec.model_validate({**value, **changes})


def submit(folder: Path, **changes: Any) -> Path:
    """Run the study and pack it; return the folder of the submission."""
    folder.mkdir(parents=True, exist_ok=True)
    result = run(spec(folder, **changes), folder / "run")
    assert not result.outcome.failed
    pack(folder / "run", folder / "submission")
    return folder / "submission"


def copied(submission: Path, folder: Path) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(submission, folder / submission.name))


def cell_of(submission: Path, protocol: str, detector: str, outliers: str = "", network: str = NETWORKS[0]) -> str:
    """Identity of the result of one detector."""
    rows = read_verified_json(submission / "plan.json")["rows"]
    return next(
        row["cell"] for row in rows
        if (row["protocol"], row["tags"].get("detector"), row["tags"].get("network")) == (protocol, detector, network)
        and row["tags"].get("outliers", "") == outliers
    )  # fmt: skip


def change_columns(submission: Path, cell: str, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Change the per-image columns of a result, and make its record anew."""
    folder = submission / "cells" / cell
    table = pq.ParquetFile(folder / SCORES).read()
    columns = {name: table.column(name).to_numpy().copy() for name in table.column_names}
    reseal_record(submission, cell, lambda: score_table(dict(change(columns)))(folder / SCORES))


def reseal_record(submission: Path, cell: str, change: Callable[[], object]) -> None:
    """Change the files of a record, and write its checksums anew."""
    folder = submission / "cells" / cell
    facts = verify_record(folder, submission)
    files = list(facts.pop("files"))
    change()
    write_record(folder, facts, files)


def change_plan(submission: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the plan and its checksum."""
    content = read_verified_json(submission / "plan.json")
    change(content)
    write_verified_json(submission / "plan.json", content)


def reseal(submission: Path, change: Callable[[dict[str, Any]], object] = lambda manifest: None) -> Path:
    """Write the manifest anew, with the checksums of all files as they are: nothing is damaged any more."""
    manifest = read_verified_json(submission / MANIFEST)
    paths = [path for path in submission.rglob("*") if path.is_file() and path.name != MANIFEST]
    manifest["files"] = {
        path.relative_to(submission).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in paths
    }
    change(manifest)
    write_verified_json(submission / MANIFEST, manifest)
    return submission


def swap(values: Any, first: int, second: int) -> Any:
    """An array with two entries exchanged."""
    values = np.asarray(values).copy()
    values[[first, second]] = values[[second, first]]
    return values


def forge(submission: Path, detector: str) -> None:
    """Replace a detector's scores on the first network by those on the second, and compute all figures from them."""
    plan = read_verified_json(submission / "plan.json")
    rows = [row for row in plan["rows"] if row["tags"].get("detector") == detector]
    cells = {_place(row): row["cell"] for row in rows}
    for (network, *place), target in cells.items():
        if network == NETWORKS[0]:
            reseal_record(submission, target, partial(_copy, submission, cells[NETWORKS[1], *place], target))
    (submission / "intervals.json").unlink()
    write_report(document(Results(submission)), submission)
    reseal(submission)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """The network of a row, and everything else that says what it is for."""
    return row["tags"]["network"], row["protocol"], *sorted((k, v) for k, v in row["tags"].items() if k != "network")


def _copy(submission: Path, source: str, target: str) -> None:
    for path in (submission / "cells" / source).iterdir():
        if path.name != "record.json":
            shutil.copyfile(path, submission / "cells" / target / path.name)
