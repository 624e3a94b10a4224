"""Sessions of a run: one verified file each, also after an error; no part of any result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from farout.protocols.provenance import all_results, facts, sessions, times
from farout.study.results import Results
from farout.study.sessions import FOLDER, read_sessions, session
from farout.study.store import score_table
from helpers.written_runs import INLIERS, write_run


def test_sessions_are_kept_in_order_also_after_an_error(tmp_path: Path) -> None:
    with session(tmp_path, engine="local", workers=2, device="cpu") as facts:
        facts["computed"] = 5
    with pytest.raises(KeyboardInterrupt), session(tmp_path, engine="ray", workers=0, device="cpu"):
        raise KeyboardInterrupt
    first, second = read_sessions(tmp_path)
    assert (first["engine"], first["workers"], first["computed"]) == ("local", 2, 5)
    assert (second["engine"], second["torch"]) == ("ray", torch.__version__)
    assert second["seconds"] >= 0
    damaged = sorted((tmp_path / FOLDER).iterdir())[0]
    damaged.write_text(damaged.read_text().replace("local", "other"))
    assert read_sessions(tmp_path) == [second]


def test_the_report_lists_sessions_times_and_results(tmp_path: Path) -> None:
    scores = {INLIERS: np.arange(8.0), "near": np.arange(8.0)}
    results = write_run(tmp_path, {("net", "3", "a"): scores})
    for row, seconds in zip(results.rows, (30.0, 90.0), strict=True):
        about = {"identity": {"kind": "scores"}, "title": row.title, "seconds": seconds, "torch": "2"}
        files = {"scores.parquet": score_table({"index": np.arange(8), "score": results.scores(row)})}
        results.store.write(row.cell, {**about, "at": "2030-01-01"}, files)
    with session(tmp_path, engine="local", workers=1, device="cpu"):
        pass
    found = Results(tmp_path)
    assert facts(found) == {"Seeds": "3", "Computed (UTC)": "2030-01-01", "torch of the results": "2",
                            "Times of all works, added up": "2.0 min"}  # fmt: skip
    (machine,), (spent,) = sessions(found), times(found)
    assert machine.frame["engine"].tolist() == ["local"]
    assert spent.frame[["kind", "results", "minutes"]].values.tolist() == [["scores", 2, 2.0]]
    assert spent.frame["slowest"][0] == "score near by net: 1.5 min"
    listed = all_results(found)
    assert listed is not None
    assert listed.frame["identity"].tolist() == [row.cell for row in found.rows]
    assert listed.frame["digest"].tolist() == [found.store.content(row.cell) for row in found.rows]
