"""Networks of a study with the logits of the inliers' classes alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farout.networks import create, restrict, save_weights
from farout.study.spec import StudySpec
from farout.study.study import from_spec
from helpers.originals import png, write


@pytest.fixture
def study(tmp_path: Path) -> Any:
    """`study(**network)`: images of two of the four classes that the network knows."""
    shade = iter(range(100))
    files = {
        f"{split}/{name}/{number}.png": png(next(shade), side=16)
        for split in ("train", "val", "test")
        for name in ("bird", "dog")
        for number in range(5)
    }
    write(tmp_path / "images", files)
    save_weights(create("lenet", 4, 16, seed=3), tmp_path / "lenet.safetensors")
    (tmp_path / "names.txt").write_text("ant\nbird\ncat\ndog\n", encoding="utf-8")

    def make(**network: Any) -> StudySpec:
        entry = {"name": "lenet", "weights": str(tmp_path / "lenet.safetensors"), **network}
        outliers = [{"name": "noise", "limit": 5}]
        content = {"name": "s", "inliers": "images", "outliers": outliers, "networks": [entry], "detectors": ["msp"]}
        return StudySpec.model_validate(content, context={"folder": tmp_path})

    return make


def test_a_study_keeps_the_logits_of_the_inliers_classes(study: Any) -> None:
    source = from_spec(study(classes_from="names.txt")).trials[0].subjects[0].fit.network
    assert source.preview().classes == 2
    assert source.identity() == restrict(create("lenet", 4, 16, seed=3), [1, 3]).digest


def test_classes_that_the_network_does_not_know(study: Any, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("ant\nbird\ncat\ncow\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"1 of 2 classes are not in .*names\.txt, such as 'dog'"):
        from_spec(study(classes_from="names.txt"))
    with pytest.raises(ValueError, match="classes_from: selects logits of existing weights; leave out train:"):
        study(classes_from="names.txt", train={})


def test_images_without_labels_have_no_classes_to_select(study: Any, tmp_path: Path) -> None:
    spec = study(classes_from="names.txt").model_dump()
    flat = str(write(tmp_path / "flat", {f"{k}.png": png(k, side=16) for k in range(9)}))
    spec["inliers"] = {"test": {"name": flat}}
    with pytest.raises(ValueError, match="have no labels, so classes_from: cannot select their classes"):
        from_spec(StudySpec.model_validate(spec))
