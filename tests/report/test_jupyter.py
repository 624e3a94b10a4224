"""A result as a cell's output in a real notebook: one rich output and no warnings beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.written_runs import INLIERS, write_run

pytest.importorskip("ipykernel", reason="notebooks need ipykernel")
nbformat = pytest.importorskip("nbformat", reason="notebooks need nbformat")
nbclient = pytest.importorskip("nbclient", reason="notebooks need nbclient")


def test_a_result_in_a_notebook(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores = {INLIERS: rng.normal(0, 1, 50), "far": rng.normal(2, 1, 50)}
    write_run(tmp_path / "run", {("net", "0", "msp"): scores, ("net", "0", "knn"): scores})
    show = f"Result(Path({str(tmp_path / 'run')!r}), Outcome())"
    code = f"from pathlib import Path\nfrom farout.api.run import Outcome, Result\n{show}"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    (shown,) = book.cells[0].outputs
    assert shown.output_type == "execute_result"
    assert '<div class="farout">' in shown.data["text/html"]
    assert "AUROC by outlier set" in shown.data["text/plain"]
