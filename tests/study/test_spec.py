"""What a study file may say, and what is said where it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic import ValidationError
from torch import Tensor, nn

from farout import ImageSet, Network
from farout.data.splits import official_split, select_split
from farout.networks import create
from farout.study.spec import DataSpec, NetworkSpec, ProtocolSpec, StudySpec, TrainSpec

LEAST: dict[str, Any] = {"inliers": "toy", "detectors": ["msp"]}


def read(folder: Path, content: dict[str, Any] | str, file: str = "study.yaml") -> StudySpec:
    path = folder / file
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return StudySpec.read(path)


def complaint(folder: Path, content: dict[str, Any] | str, file: str = "study.yaml") -> str:
    """Error message of a study that is not valid, as one line."""
    with pytest.raises(ValueError) as caught:
        read(folder, content, file)
    return " ".join(str(caught.value).split())


def test_the_least_study_and_its_defaults(tmp_path: Path) -> None:
    study = read(tmp_path, LEAST, "least.yaml")
    assert study.name == "least"
    assert study.inliers.train == DataSpec(name="toy", split="train")
    assert study.inliers.val == DataSpec(name="toy", split="val")
    assert study.inliers.test == DataSpec(name="toy", split="test")
    assert [item.name for item in study.detectors] == ["msp"]
    assert (study.outliers, study.networks, study.seeds) == ([], [], [0])
    assert study.protocols == [ProtocolSpec(name="clean")]
    assert study.budget == "standard"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("noise", {"name": "noise"}),
        ("toy:test/ood_cls", {"name": "toy", "split": "test/ood_cls"}),
        ("toy:train", {"name": "toy", "split": "train"}),
        ({"name": "toy", "limit": 7, "label": "few"}, {"name": "toy", "limit": 7, "label": "few"}),
        ({"name": "noise", "options": {"side": 8}}, {"name": "noise", "options": {"side": 8}}),
    ],
)
def test_an_outlier_set_may_be_written_short(tmp_path: Path, given: Any, meant: dict[str, Any]) -> None:
    assert read(tmp_path, {**LEAST, "outliers": [given]}).outliers == [DataSpec(**meant)]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("toy", {split: {"name": "toy", "split": split} for split in ("train", "val", "test")}),
        ({"name": "toy", "limit": 9}, {s: {"name": "toy", "split": s, "limit": 9} for s in ("train", "val", "test")}),
        ("toy:val", {"test": {"name": "toy", "split": "val"}}),
        ({"name": "toy", "split": "val"}, {"test": {"name": "toy", "split": "val"}}),
        ({"test": "toy"}, {"test": {"name": "toy"}}),
        (
            {"train": "toy:train", "test": {"name": "toy", "limit": 3}},
            {"train": {"name": "toy", "split": "train"}, "test": {"name": "toy", "limit": 3}},
        ),
    ],
)
def test_inliers_may_be_written_short(tmp_path: Path, given: Any, meant: dict[str, Any]) -> None:
    inliers = read(tmp_path, {**LEAST, "inliers": given}).inliers
    expected = {split: DataSpec(**meant[split]) if split in meant else None for split in ("train", "val", "test")}
    assert {"train": inliers.train, "val": inliers.val, "test": inliers.test} == expected


@pytest.mark.parametrize(
    ("given", "name", "label", "params"),
    [
        ("knn", "knn", None, {}),
        ({"name": "knn", "k": 10}, "knn", None, {"k": 10}),
        ({"name": "knn", "k": 10, "label": "near"}, "knn", "near", {"k": 10}),
        ({"name": "knn", "params": {"k": 10}}, "knn", None, {"k": 10}),
    ],
)
def test_a_detector_may_be_written_short(tmp_path: Path, given: Any, name: str, label: Any, params: Any) -> None:
    (detector,) = read(tmp_path, {**LEAST, "detectors": [given]}).detectors
    assert (detector.name, detector.label, detector.params) == (name, label, params)


@pytest.mark.parametrize("mean", [0.5, [0.4, 0.5, 0.6]])
def test_a_normalizer_is_one_number_or_one_per_channel(tmp_path: Path, mean: Any) -> None:
    given = {"name": "lenet", "train": {}, "mean": mean, "std": 0.25}
    (network,) = read(tmp_path, {**LEAST, "networks": [given]}).networks
    assert (network.mean, network.std) == (tuple(mean) if isinstance(mean, list) else mean, 0.25)
    assert NetworkSpec.model_validate_json(network.model_dump_json()) == network
    made = create("lenet", 4, 32, mean=network.mean, std=network.std)
    assert made.mean.flatten().tolist() == pytest.approx(mean if isinstance(mean, list) else [0.5] * 3)


def test_a_network_takes_no_key_that_nobody_reads(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown key in network: 'wights'. Did you mean 'weights'\?"):
        read(tmp_path, {**LEAST, "networks": [{"name": "lenet", "wights": "a.pt"}]})
    given = {"name": "of_a_plugin", "width": 3, "train": {}}
    assert read(tmp_path, {**LEAST, "networks": [given]}).networks[0].params == {"width": 3}


def test_a_network_to_be_trained_gets_the_usual_recipe(tmp_path: Path) -> None:
    (network,) = read(tmp_path, {**LEAST, "networks": [{"name": "lenet", "train": {"epochs": 3}}]}).networks
    recipe = TrainSpec(
        epochs=3, lr=0.1, batch=128, weight_decay=5e-4, schedule="cosine", augment="crop_flip"
    )  # fmt: skip
    assert network == NetworkSpec(name="lenet", train=recipe, mean=None, std=None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"detectrs": ["msp"]}, "study: unknown key in study: 'detectrs'. Did you mean 'detectors'?"),
        ({"inliers": {"tset": "toy"}}, "inliers: unknown key in inliers: 'tset'. Did you mean 'test'?"),
        ({"inliers": {"name": "toy", "limt": 2}}, "inliers.test: unknown key in data: 'limt'. Did you mean 'limit'?"),
        (
            {"outliers": ["toy", {"name": "noise", "splt": "x"}]},
            "outliers.1: unknown key in data: 'splt'. Did you mean",
        ),
        (
            {"networks": [{"name": "lenet", "weight": "w"}]},
            "networks.0: unknown key in network: 'weight'. Did you mean",
        ),
        ({"networks": [{"name": "lenet", "train": {"epoch": 1}}]}, "networks.0.train: unknown key in train: 'epoch'."),
        ({"outliers": "noise"}, "outliers: Input should be a valid list"),
        ({"outliers": [3]}, "outliers.0: expected a name or a mapping, got 3"),
        ({"inliers": 5}, "inliers.test: expected a name or a mapping, got 5"),
        ({"inliers": ""}, "inliers.test.name: String should have at least 1 character"),
        ({"outliers": [{"name": "toy", "limit": 0}]}, "outliers.0.limit: Input should be greater than 0"),
        ({"outliers": [{"split": "test"}]}, "outliers.0.name: Field required"),
        ({"detectors": []}, "detectors: List should have at least 1 item"),
        ({"detectors": [{"k": 3}]}, "detectors.0.name: Field required"),
        ({"protocols": []}, "protocols: List should have at least 1 item"),
        ({"protocols": ["clean", "clean"]}, "protocols: clean is listed more than once"),
        ({"seeds": []}, "seeds: List should have at least 1 item"),
        ({"seeds": [3, 1, 3]}, "seeds: 3 is listed more than once"),
        ({"seeds": ["many"]}, "seeds.0: Input should be a valid integer"),
        ({"budget": "huge"}, "budget: Input should be 'quick', 'standard' or 'full'"),
        (
            {"networks": ["lenet"]},
            "networks.0: network 'lenet' has no weights: give weights: file, pretrained: true or train: {…}",
        ),
        (
            {"networks": [{"name": "lenet", "weights": "w.pt", "pretrained": True, "train": {}}]},
            "networks.0: network 'lenet' has both weights: (a file) and pretrained: true (timm)",
        ),
        (
            {"networks": [{"name": "lenet", "weights": ["a.pt", "b.pt"], "train": {}}]},
            "networks.0: network 'lenet': training starts from one file, got 2; for an ensemble give one file and memb",
        ),
        (
            {"networks": [{"name": "lenet", "train": {}, "classes": 0}]},
            "networks.0: network 'lenet': without classes (classes: 0) there is nothing to train",
        ),
        (
            {"networks": [{"name": "lenet", "weights": "w.pt", "classes": -1}]},
            "networks.0.classes: Input should be greater than or equal to 0",
        ),
        ({"name": "../up"}, "name: a study's name must start with a letter or digit"),
        ({"name": ".."}, "got '..'; set it with name:"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    found = complaint(tmp_path, {**LEAST, **change})
    assert said in found
    assert f"the study {tmp_path / 'study.yaml'} is not valid" in found


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    found = complaint(tmp_path, {"inliers": 5, "detectors": [], "budget": "huge"})
    assert all(place in found for place in ("inliers.test:", "detectors:", "budget:"))


@pytest.mark.parametrize("missing", ["inliers", "detectors"])
def test_what_every_study_needs(tmp_path: Path, missing: str) -> None:
    content = {key: value for key, value in LEAST.items() if key != missing}
    assert f"{missing}: Field required" in complaint(tmp_path, content)


def test_a_file_name_that_cannot_name_a_study(tmp_path: Path) -> None:
    assert "got 'my study'; set it with name:" in complaint(tmp_path, LEAST, "my study.yaml")
    assert read(tmp_path, {**LEAST, "name": "mine"}, "my study.yaml").name == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("inliers: [toy", "cannot read the study"),
        ("inliers: toy\n\tdetectors: [msp]", "cannot read the study"),
        ("name: 2020-99-99\n", "cannot read the study"),
        ("", "must be a mapping (name:, inliers:, …), got NoneType"),
        ("- toy\n- msp\n", "must be a mapping (name:, inliers:, …), got list"),
    ],
)
def test_bad_yaml(tmp_path: Path, text: str, said: str) -> None:
    found = complaint(tmp_path, text)
    assert said in found
    assert str(tmp_path / "study.yaml") in found


def test_yaml_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(ValueError, match="cannot read the study"):
        StudySpec.read(tmp_path / "study.yaml")


def test_no_such_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(ValueError, match="cannot read the study"):
            StudySpec.read(path)


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!!python/name:os.system", "!!python/tuple"])
def test_yaml_that_would_make_python_objects_is_refused(tmp_path: Path, tag: str) -> None:
    marker = tmp_path / "marker"
    found = complaint(tmp_path, f"inliers: toy\ndetectors: {tag} ['touch {marker}']\n")
    assert "could not determine a constructor" in found
    assert not marker.exists()


def test_paths_start_from_the_studys_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "pictures").mkdir(parents=True)
    np.savez(tmp_path / "here" / "odd.npz", images=np.zeros((2, 8, 8), np.uint8))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    outliers = ["odd.npz", "pictures", "gone.npz", "odd.npz:val", {"name": "../here/odd.npz", "label": "again"}]
    networks = [{"name": "lenet", "weights": "lenet.safetensors"}]
    study = read(tmp_path / "here", {**LEAST, "outliers": outliers, "networks": networks})
    here = (tmp_path / "here").resolve()
    names = [item.name for item in study.outliers]
    assert names == [str(here / name) for name in ("odd.npz", "pictures", "gone.npz", "odd.npz", "odd.npz")]
    assert [item.split for item in study.outliers] == ["test", "test", "test", "val", "test"]
    assert study.networks[0].weights == str(here / "lenet.safetensors")


def test_absolute_paths_stay(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    np.savez(tmp_path / "odd.npz", images=np.zeros((2, 8, 8), np.uint8))
    study = read(tmp_path / "study", {**LEAST, "outliers": [str(tmp_path / "odd.npz")]})
    assert study.outliers[0].name == str((tmp_path / "odd.npz").resolve())


def test_a_path_with_a_colon_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "taken:2020").mkdir()
    study = read(tmp_path, {**LEAST, "outliers": ["taken:2020"]})
    assert study.outliers == [DataSpec(name=str((tmp_path / "taken:2020").resolve()))]


@pytest.mark.parametrize("place", ["study", "working folder"])
def test_a_folder_called_like_a_known_set_does_not_hide_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folders = {"study": tmp_path / "a", "working folder": tmp_path / "b"}
    for folder in folders.values():
        folder.mkdir()
    (folders[place] / "toy").mkdir()
    monkeypatch.chdir(folders["working folder"])
    study = read(folders["study"], {**LEAST, "outliers": ["toy:test/ood_cls"]})
    assert study.inliers.train == DataSpec(name="toy", split="train")
    assert study.outliers[0].name == "toy"


@pytest.mark.parametrize(("splits", "read_as"), [((), ["test"]), (("train", "test"), ["train", "test"])])
def test_a_folder_stands_for_the_splits_it_has(tmp_path: Path, splits: tuple[str, ...], read_as: list[str]) -> None:
    (tmp_path / "cats").mkdir()
    for split in splits:
        (tmp_path / "cats" / split).mkdir()
    inliers = read(tmp_path, {**LEAST, "inliers": "cats"}).inliers
    assert [split for split in ("train", "val", "test") if getattr(inliers, split)] == read_as
    assert inliers.test == DataSpec(name=str((tmp_path / "cats").resolve()))


def test_a_study_cannot_be_changed(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read(tmp_path, LEAST).budget = "quick"


def test_a_study_does_not_look_for_sets_where_it_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "photos").mkdir(parents=True)
    (tmp_path / "study.yaml").write_text("inliers: toy\noutliers: [photos]\ndetectors: [msp]\n")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ValueError, match=r"outliers\.0: unknown data set 'photos'"):
        StudySpec.read(tmp_path / "study.yaml")


SHIPPED = sorted((Path(__file__).parents[2] / "studies").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_studies_that_come_with_us_can_be_read(path: Path) -> None:
    assert StudySpec.read(path).budget == "full"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shapes", "chars"])
def test_the_study_of_the_paper_has_its_figures(name: str) -> None:
    """10 networks × (13 detectors + 4 as OpenOOD computes them) × 4 test sets × 3 seeds; and trainings and fits.

    Left out: scale on the transformer, and OpenOOD's vim on the six networks with fewer than 256 features.
    """
    from farout.protocols import plan
    from farout.study.cells.cell import closure
    from farout.study.study import from_spec

    (path,) = [path for path in SHIPPED if path.stem == f"shapes_chars_{name}"]
    entries = plan(from_spec(StudySpec.read(path)))
    pairs = 10 * (13 + 4) - 1 - 6
    assert len(entries) == pairs * 4 * 3 + 10 * 3  # and the classes of ten networks, by seed
    assert len(closure([entry.cell for entry in entries])) == pairs * 4 * 3 + pairs * 3 + 2 * 10 * 3
    assert ("vit_tiny", "scale") not in {(entry.tags["network"], entry.tags["detector"]) for entry in entries}
    as_openood = {entry.tags["detector"] for entry in entries if "(OpenOOD)" in entry.tags["detector"]}
    assert as_openood == {f"{name} (OpenOOD)" for name in ("odin", "vim", "nnguide", "ash")}
    families = {entry.tags["network"].rstrip("0123456789_") for entry in entries}
    assert families == {"resnet", "vit_tiny", "densenet", "wrn"}


CIFAR_10, SUPER_CLASSES = 10, 20


def few(name: str, classes: int, side: int, kinds: int = 1) -> Any:
    """A stand-in for a set that would be fetched: ten training images of every class, two for every kind to test."""

    def make(split: str = "test", **options: Any) -> ImageSet:
        part = official_split(split, name)
        labels = np.arange(classes).repeat(2 * kinds if part == "test" else 10)
        pixels = np.random.default_rng([len(labels), classes]).integers(0, 256, (len(labels), side, side, 3), np.uint8)
        images = ImageSet.from_arrays(pixels, labels, name=name)
        if kinds > 1:
            images.attributes = {"outlier": np.arange(len(labels)) % 2 if part == "test" else 0 * labels}
        return select_split(images, split)

    return make


class Stages(nn.Module):
    """Stages by the names that a ResNet of timm's has, and features."""

    block_names = ("act1", "layer1", "layer2", "layer3", "layer4")

    def __init__(self) -> None:
        super().__init__()
        for name in self.block_names:
            self.add_module(name, nn.Conv2d(3, 3, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        for name in self.block_names:
            x = self.get_submodule(name)(x)
        return x.mean((2, 3))


@pytest.mark.parametrize(
    ("table", "data", "maker", "pairs", "classes", "copies"),
    [
        ("table1", "cifar10", few("cifar10", CIFAR_10, 32), 5, CIFAR_10, 5 + 95),
        ("table2", "cifar100", few("cifar100", SUPER_CLASSES, 32), 4, SUPER_CLASSES, 5 + 95),
        ("table3", "mvtec", few("mvtec", 15, 32, kinds=2), 5, 15, 5),
        ("table5", "cifar10", few("cifar10", CIFAR_10, 32), 5, CIFAR_10, 1),
    ],
)
def test_the_realistic_studies_plan_what_the_paper_did(
    monkeypatch: pytest.MonkeyPatch, table: str, data: str, maker: Any, pairs: int, classes: int, copies: int
) -> None:
    """With stand-ins for images and networks, which would be fetched; pairs: of networks and detectors; csi has
    a network of its own, and sees shifted images of its class alone."""
    from farout.data.catalog import DATASETS
    from farout.protocols import cuts, plan
    from farout.study.sources import opening as sources
    from farout.study.study import from_spec

    monkeypatch.setitem(DATASETS._makers, data, maker)
    monkeypatch.setattr(sources, "create", lambda *_args, **_options: Network(Stages(), mean=0.5, std=0.5, head=False))
    (path,) = [path for path in SHIPPED if path.stem == f"rood_{table}"]
    study = from_spec(StudySpec.read(path))
    entries = plan(study)
    assert len(entries) == pairs * classes * (1 + copies)
    assert {entry.tags["n_train"] for entry in entries} == {"10"}  # all training images: none is held out
    assert len({entry.cell.images.about.total for entry in entries}) == (2 if table in ("table1", "table3") else 1)
    assert study.cuts + cuts(study) == []


def test_a_font_is_looked_for_beside_the_study(tmp_path: Path) -> None:
    inliers = {"name": "chars", "options": {"font": "own.ttf", "side": 48}}
    study = read(tmp_path, {**LEAST, "inliers": inliers})
    assert study.inliers.test.options == {"font": str((tmp_path / "own.ttf").resolve()), "side": 48}
