"""The same images in any format have the same per-image scores, in Python and in a study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import farout
from farout.networks import create
from farout.study.spec import StudySpec
from farout.study.study import inliers_from, outliers_from
from helpers.command_line import farout as command
from helpers.originals import png, random_pixels, write
from helpers.shards import cells, samples, write_table, write_tar

PIXELS = random_pixels(70, 32, 32, 3)
LABELS = np.arange(70) // 24


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths of one set in all formats."""
    at = tmp_path_factory.mktemp("formats")
    images = [png(pixels) for pixels in PIXELS]
    write(at / "folder", {f"{label}/{k:05}.png": images[k] for k, label in enumerate(LABELS)})
    (at / "tars").mkdir()
    for shard, part in enumerate(np.array_split(np.arange(70), 4)):
        write_tar(at / "tars" / f"photos-{shard:03}.tar", samples([images[k] for k in part], LABELS[part], part[0]))
    write_table(at / "table.parquet", {"image": cells(images), "label": LABELS}, rows=9)
    np.savez(at / "stored.npz", images=PIXELS, labels=LABELS)
    np.savez_compressed(at / "compressed.npz", images=PIXELS, labels=LABELS)
    np.save(at / "images.npy", PIXELS)
    np.save(at / "labels.npy", LABELS)
    np.save(at / "floats.npy", np.divide(PIXELS.transpose(0, 3, 1, 2), np.float32(255), dtype=np.float32))
    names = ("folder", "tars", "tars/photos-{000..003}.tar", "table.parquet", "stored.npz", "compressed.npz",
             "images.npy", "floats.npy")  # fmt: skip
    return {name: str(at / name) for name in names}


def test_the_same_scores(formats: dict[str, str]) -> None:
    network = create("lenet", 3, 32)
    panel = farout.Panel(network, ["msp", "knn", "mds"]).fit(farout.ImageSet.from_arrays(PIXELS[::-1], LABELS[::-1]))
    expected = panel.score(farout.ImageSet.from_arrays(PIXELS))
    for name, path in formats.items():
        images = farout.load(path)
        found = panel.score(images)
        for detector, scores in expected.items():
            np.testing.assert_array_equal(found[detector], scores, err_msg=f"{detector} on {name}")
        assert images.labels is not None
        assert images.labels.tolist() == LABELS.tolist()


def test_formats_are_listed() -> None:
    said = " ".join(command("list", "datasets").out.split())
    assert "cifar10" in said
    assert (
        "shards (.tar in WebDataset's layout, .parquet with a column of images; a folder of them or a pattern" in said
    )


def test_a_pattern_has_a_short_label(formats: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(
        f'inliers: {{test: {formats["folder"]}}}\noutliers: ["{formats["tars/photos-{000..003}.tar"]}"]\n'
        "networks: [{name: lenet, weights: lenet.pt}]\ndetectors: [msp]\nprotocols: [clean]\n"
    )
    spec = StudySpec.read(tmp_path / "study.yaml")
    assert list(outliers_from(spec.outliers, inliers_from(spec.inliers, "full"), "full")) == ["photos"]


def test_in_a_study(formats: dict[str, str], tmp_path: Path) -> None:
    """Outliers are given as a pattern, a folder of shards, a table and an array; inliers as shards, by split."""
    network = create("lenet", 3, 32)
    torch.save(network.state_dict(), tmp_path / "lenet.pt")
    images = [png(pixels) for pixels in PIXELS]
    for split, part in (("train", slice(0, 70, 2)), ("test", slice(1, 70, 2))):
        write_tar(tmp_path / f"{split}-0.tar", samples(images[part], LABELS[part]))
    outliers = "\n".join(
        f'  - {{name: "{path}", label: "{name}"}}' for name, path in formats.items() if name != "folder"
    )
    (tmp_path / "study.yaml").write_text(
        f'inliers: "{tmp_path}/*.tar"\noutliers:\n{outliers}\nnetworks: [{{name: lenet, weights: lenet.pt}}]\n'
        "detectors: [msp]\nprotocols: [clean]\nbudget: full\n"
    )
    ended = command("run", tmp_path / "study.yaml", "--out", tmp_path / "run", "--workers", "0")
    assert ended.code == 0, ended.err
    stored = [pd.read_parquet(path) for path in (tmp_path / "run" / "cells").rglob("scores.parquet")]
    found = [table for table in stored if len(table) == len(PIXELS)]
    assert len(found) == 4  # arrays of bytes, of floats, tars and tables: sets of the same fingerprint are scored once
    for table in found[1:]:
        pd.testing.assert_frame_equal(table, found[0])
