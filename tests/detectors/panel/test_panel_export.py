"""A panel as one ONNX file: ONNX Runtime gives the panel's scores and p-values, in batches of any size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import farout
from farout.adapters import ONNX

PIXELS = np.random.default_rng(0).integers(0, 256, (160, 16, 16, 3), np.uint8)
LABELS = np.arange(160) % 4
IMAGES = np.random.default_rng(1).random((37, 3, 16, 16), np.float32)
WRITTEN = [
    "ash", "dice", "dn2", "ebo", "entropy", "gen", "gradnorm", "klm", "knn", "mds", "mls", "msp", "nnguide", "react",
    "rmds", "scale", "she", "temp_scaling", "vim",
]  # fmt: skip


def network() -> farout.Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(16, 4),
        )  # fmt: skip
    return farout.Network(module, mean=0.5, std=0.25, side=16)


def fitted(*names: str | farout.PostHoc) -> farout.Panel:
    train = farout.ImageSet.from_arrays(PIXELS[:120], LABELS[:120], name="train")
    val = farout.ImageSet.from_arrays(PIXELS[120:], LABELS[120:], name="val")
    return farout.Panel(network(), list(names)).fit(train, val=val)


def read(path: Path, *batches: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
    """What the file gives for these batches."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    parts = [session.run(None, {"images": batch}) for batch in batches]
    return {name: np.concatenate([part[place] for part in parts]) for place, name in enumerate(names)}


def test_scores_and_p_values_of_a_file_are_those_of_the_panel(tmp_path: Path) -> None:
    panel = fitted(*WRITTEN)
    panel.export(tmp_path / "all.onnx")
    found = read(tmp_path / "all.onnx", IMAGES[:1], IMAGES[1:4], IMAGES[4:])
    assert list(found) == [f"{name}_{kind}" for name in WRITTEN for kind in ("score", "p_value")]
    p_values = panel.p_values(IMAGES)
    for name, scores in panel.score(IMAGES).items():
        np.testing.assert_allclose(found[f"{name}_score"], scores, rtol=1e-4, atol=1e-4 * np.abs(scores).max())
        steps = np.abs(found[f"{name}_p_value"] - p_values[name]) * (len(panel.validation[name]) + 1)
        assert steps.max() < 1.5  # rounding may move a score past one of the validation scores, no more
        assert (steps < 0.5).mean() > 0.9


def test_a_file_of_one_detector_is_a_detector_of_the_onnx_adapter(tmp_path: Path) -> None:
    panel = fitted("knn")
    panel.export(tmp_path / "one.onnx")
    assert list(read(tmp_path / "one.onnx", IMAGES)) == ["score", "p_value"]
    scores = ONNX(tmp_path / "one.onnx").score(torch.from_numpy(IMAGES)).numpy()
    np.testing.assert_allclose(scores, panel.score(IMAGES)["knn"], rtol=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == ["one.onnx"]


def test_without_validation_scores_there_are_no_p_values(tmp_path: Path) -> None:
    panel = farout.Panel(network(), {"a": "msp", "b": "ebo"})
    panel.export(tmp_path / "two.onnx")
    assert list(read(tmp_path / "two.onnx", IMAGES)) == ["a_score", "b_score"]


class Sorting(farout.PostHoc):
    """Takes steps that depend on the images."""

    def score(self, activations: farout.Activations) -> Tensor:
        return torch.tensor([max(row) for row in activations.logits.tolist()], dtype=torch.float64)


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    panel = fitted("msp", "odin", "knn", Sorting())
    with pytest.raises(ValueError, match=r"odin, Sorting cannot be exported to ONNX \(odin: it needs gradients.*") as e:
        panel.export(tmp_path / "no.onnx")
    assert "Sorting: ONNX Runtime does not run it" in str(e.value)
    assert str(e.value).endswith("Export a panel of the others: msp, knn")
    assert not list(tmp_path.iterdir())


def test_a_panel_says_what_it_needs_before(tmp_path: Path) -> None:
    with pytest.raises(farout.NotFitted, match="is not fitted: call fit before export"):
        farout.Panel(network(), ["knn"]).export(tmp_path / "no.onnx")
    pooled = farout.Network(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4)), mean=0.5, std=1)
    with pytest.raises(ValueError, match=r"side of the exported model: export\(path, side=32\)"):
        farout.Panel(pooled, ["msp"]).export(tmp_path / "no.onnx")
    farout.Panel(pooled, ["msp"]).export(tmp_path / "yes.onnx", side=16)
    assert read(tmp_path / "yes.onnx", IMAGES)["score"] == pytest.approx(
        farout.Panel(pooled, ["msp"]).score(IMAGES)["msp"]
    )
