"""Tables of a finished run: the second reading takes its bootstrap intervals from the run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farout.protocols.document import document
from farout.study import interval_cache
from farout.study.interval_cache import FILE
from farout.study.results import Results
from helpers.written_runs import INLIERS, write_run


def frames(root: Path) -> list[str]:
    return [table.frame.to_csv() for table in document(Results(root)).tables]


def test_tables_are_equal_with_and_without_kept_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    scores: dict[str, Any] = {INLIERS: rng.normal(size=30), "near": rng.normal(1, size=20)}
    write_run(tmp_path, {("net", "0", "a"): scores})
    first = frames(tmp_path)

    def never(*args: object, **options: object) -> None:
        raise AssertionError("an interval was computed again")

    with monkeypatch.context() as patched:
        patched.setattr(interval_cache, "bootstrap_intervals", never)
        assert frames(tmp_path) == first
        (tmp_path / FILE).unlink()
        with pytest.raises(AssertionError, match="computed again"):
            frames(tmp_path)
    assert frames(tmp_path) == first
