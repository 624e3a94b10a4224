"""The examples that people copy do what they say."""

from pathlib import Path

import pytest

import farout
from farout.networks.base import seeded
from farout.plugins import load_plugin

EXAMPLES = Path(__file__).parents[1] / "examples"


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
