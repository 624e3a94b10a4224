"""Calibration on labeled sets that have some of the inliers' classes: the softmax is over these alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import farout
from farout.api.run import run
from farout.networks import create, save_weights
from farout.protocols import plan
from farout.protocols.document import document
from farout.protocols.raised_bar.logit_mask import logit_mask
from farout.study.cells.predict import PredictCell
from farout.study.results import Results
from farout.study.sources.images import About
from farout.study.sources.networks import RestrictedNetwork, StoredNetwork
from farout.study.spec import StudySpec
from farout.study.study import Study, from_spec
from helpers.originals import png, write

CLASSES = ("ant", "bird", "cat", "dog", "eel", "fox")
ODDS = (8.0, 1.0, 4.0, 3.0, 2.0, 2.0)
"""Softmax of every image times 20: it is an ant with confidence 0.4; of bird, dog and fox, a dog with 0.5."""


def write_folders(folder: Path) -> None:
    """Inliers of six classes, further images of three and of all of them, and a network with constant logits."""
    counts = {"part/bird": 1, "part/dog": 2, "part/fox": 7, **{f"all/{name}": 1 for name in CLASSES}}
    counts |= {f"images/{split}/{name}": 2 for split in ("train", "val", "test") for name in CLASSES}
    shades = iter(range(256))
    write(folder, {f"{place}/{k}.png": png(next(shades), 16) for place, total in counts.items() for k in range(total)})
    network = create("lenet", 6, 16, seed=3)
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.copy_(torch.tensor(ODDS).log())
    save_weights(network, folder / "lenet.safetensors")
    generator = farout.generators.create("pix2pix", side=16, width=4)
    generator.module = generator.build()
    generator.save(folder / "pix2pix.safetensors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masks")
    write_folders(folder)
    return folder


def study(folder: Path, **settings: Any) -> Study:
    shifted = {"generator": "pix2pix.safetensors"}
    bar = {"name": "raised_bar", "near": False, "sanity": False, "corruptions": False, "shifted": shifted, **settings}
    content = {
        "name": "masks",
        "inliers": "images",
        "networks": [{"name": "lenet", "weights": "lenet.safetensors"}],
        "detectors": ["msp"],
        "protocols": [bar],
    }
    return from_spec(StudySpec.model_validate(content, context={"folder": folder}))


SHIFTS = [{"name": "part", "label": "part"}, {"name": "all", "label": "all"}]


def test_accuracy_and_ece_are_over_the_classes_of_the_set(folder: Path, tmp_path: Path) -> None:
    result = run(study(folder, shifts=SHIFTS), tmp_path)
    assert not result.results.failures()
    found = document(Results(tmp_path)).summaries["raised_bar"]
    table = next(table for table in found.tables if table.name == "raised_bar_ece")
    line = table.frame.iloc[0]
    assert line["part"] == pytest.approx(0.5 - 0.2)  # two of ten are dogs
    assert line["all"] == pytest.approx(0.4 - 1 / 6)  # one of six is an ant
    assert line["test"] == pytest.approx(0.4 - 1 / 6)
    assert "part (10 images; softmax over its 3 classes alone), all (6 images)." in table.caption
    plots: Any = next(figure for figure in found.figures if figure.name == "raised_bar_reliability")
    curve = plots.panels["lenet"]["part"]
    assert [value for value in curve.y if value == value] == pytest.approx([0.2])


def test_the_mask_is_part_of_the_identity_where_there_is_one(folder: Path) -> None:
    entries = [entry for entry in plan(study(folder, shifts=SHIFTS)) if entry.tags.get("role") == "prediction"]
    cells = {entry.tags["of"]: entry.cell for entry in entries}
    masked = cells.pop("part").network
    assert isinstance(masked, RestrictedNetwork)
    assert masked.identity() == {"network": masked.source.identity(), "classes": [1, 3, 5]}
    assert list(cells) == ["test", "all", "shifted"]
    for cell in cells.values():
        assert isinstance(cell.network, StoredNetwork)
        assert cell.identity["network"] == masked.source.preview().digest
        assert cell.id == PredictCell(masked.source, cell.images).id


def about(*classes: str, labeled: bool = True) -> About:
    return About("images", "", 9, (3, 16, 16), classes, labeled)


@pytest.mark.parametrize(
    ("classes", "mask"),
    [
        (CLASSES, ()),
        (("fox", "bird"), (5, 1)),  # in the order of the set's labels
        (CLASSES[::-1], (5, 4, 3, 2, 1, 0)),
        (tuple("012345"), ()),  # as many classes under other names are the same ones
    ],
)
def test_classes_are_matched_by_name(classes: tuple[str, ...], mask: tuple[int, ...]) -> None:
    assert logit_mask(about(*CLASSES), about(*classes)) == mask


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (about("bird", "cow"), r"2 classes such as 'cow', expected the 6 classes of the inliers, or at least 2 of"),
        (about("bird"), r"1 class, expected the 6 classes"),
        (about("bird", "dog", labeled=False), r"no labels, expected the 6 classes"),
    ],
)
def test_sets_that_cannot_be_classified(images: About, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        logit_mask(about(*CLASSES), images)
