"""The examples that people copy do what they say."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import farout
from farout.networks.base import seeded
from farout.plugins import load_plugin

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_own_detector_is_well_behaved_and_finds_empty_images():
    detector = load_plugin(EXAMPLES / "own_detector.py").EdgeEnergy
    assert [finding for finding in farout.check(detector) if finding.problem] == []
    table = farout.stress(detector(), inliers="toy").table()
    empty = table[table["outliers"] == "toy:ood_empty"]
    assert empty["auroc"].item() > 0.9


@pytest.mark.slow
def test_own_classifier_learns_and_its_panel_is_put_to_the_test(capsys):
    with seeded(0):  # the example's module draws its weights when it is imported
        table = load_plugin(EXAMPLES / "own_classifier.py").main(epochs=5).table()
    accuracy = float(capsys.readouterr().out.split("validation accuracy ")[1].split("%")[0])
    assert accuracy > 50  # chance is 25
    assert set(table["detector"]) == {"msp", "ebo", "knn", "knn(k=5)", "mds"}
    assert table["auroc"].max() > 0.9


def last_wave(signals: torch.Tensor) -> np.ndarray:
    """Height of a beat's last wave over the line between its feet, 0.3 s after the peak: no drift changes it."""
    at = 30 + signals[:, 30:50].argmax(1, keepdim=True)

    def level(*offsets: int) -> torch.Tensor:
        return torch.stack([signals.gather(1, at + offset).squeeze(1) for offset in offsets]).mean(0)

    return (level(28, 29, 30, 31, 32) - level(13, 14, 15, 45, 46, 47)).numpy()


def test_time_series_hides_sick_beats_that_stay_sick(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_plugin(EXAMPLES / "time_series.py")
    found = example.main(chains=64, steps=60)
    printed = capsys.readouterr().out
    figure = r"([.\d]+)"
    line = rf"gains from {figure}: AUROC {figure} as recorded at random, {figure} in the worst case; {figure} against"
    gain, clean, worst_case, control = np.array(re.findall(line, printed), dtype=float).T
    assert list(gain) == [0.7, 0.3, 0.7, 0.3]  # PCA and KNN
    assert clean.min() > 0.95
    assert (worst_case < clean).all()
    assert worst_case[gain == 0.7].min() > 0.9
    assert worst_case[gain == 0.3].max() < 0.8
    assert control.min() > 0.99  # as the last lines say
    ranks = [int(value) for value in re.findall(r"above (\d+) of 1000 healthy ones", printed)]
    assert ranks[0] > ranks[1]
    assert ranks[2] > ranks[3]
    assert [float(value) for value in re.findall(r"ones: gain ([.\d]+), delay", printed)] == [0.7, 0.3, 0.7, 0.3]
    for worst in found.values():
        assert (last_wave(worst.images) < 0).all()
    assert (last_wave(example.recorded(example.beats(1000, 2), 2)) > 0).all()


def test_the_variation_of_the_time_series_does_what_its_conditions_say() -> None:
    """A straight line stays one wherever it is read: gain · (value there) + drift · (time − 0.5)."""
    example = load_plugin(EXAMPLES / "time_series.py")
    z = torch.rand(20, 4, generator=torch.Generator().manual_seed(0))
    signals = example.Recording().decode(z, (2 * example.TIME + 1).expand(20, 100))
    now = example.Recording().conditions(z)
    where = (0.4 + now["rate"] * (example.TIME - 0.4 - now["delay"])).clamp(0, 1)
    expected = now["gain"] * (2 * where + 1) + now["drift"] * (example.TIME - 0.5)
    assert signals.numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    assert (now["gain"].min() > 0.3) & (now["gain"].max() < 1.7)


def test_own_post_hoc_is_compared_and_exported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    example = load_plugin(EXAMPLES / "own_post_hoc.py")
    logits = torch.tensor([[1.0, 5.0, 3.0, 0.5]])
    activations = farout.Activations(logits, torch.zeros(1, 2))
    assert [example.Margin(k=k).score(activations).item() for k in (1, 2)] == [-2, -4]
    found = example.main(epochs=1)
    assert -1 <= found.low <= found.high <= 1
    assert "AUROC of the new version minus that of the old" in capsys.readouterr().out
    scores = farout.adapters.ONNX("margin.onnx").score(farout.load("toy").batch([0, 1]))
    assert scores.shape == (2,)


def test_own_parts_run_in_a_study(tmp_path: Path) -> None:
    plugins = (str(EXAMPLES / "own_parts.py"),)
    result = farout.run(EXAMPLES / "own_parts.yaml", tmp_path / "out", plugins=plugins)
    assert not result.outcome.failed
    assert set(result.table()["detector"]) == {"msp", "knn"}
