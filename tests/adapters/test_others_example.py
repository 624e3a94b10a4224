"""The example of others' detectors does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from farout.plugins import load_plugin
from helpers.local_server import serving

EXAMPLE = load_plugin(Path(__file__).parents[2] / "examples" / "others_detectors.py")


@pytest.mark.slow
def test_the_function_finds_empty_images_and_the_panel_scores_with_its_estimators() -> None:
    function, panel = (result.table() for result in EXAMPLE.main(epochs=1, limit=300))
    assert set(function["detector"]) == {"contrast"}
    assert function.set_index("outliers")["auroc"]["toy:ood_empty"] > 0.9
    assert set(panel["detector"]) == {"msp", "forest", "lof"}
    assert panel["auroc"].max() > 0.6


def test_the_server_gets_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("FAROUT_TOKEN", "abcdef")
    with serving() as server:
        assert EXAMPLE.served(server.url).score(torch.full((2, 3, 4, 4), 0.5)).tolist() == [0.5, 0.5]
    assert server.seen[0]["headers"]["Authorization"] == "Bearer abcdef"
