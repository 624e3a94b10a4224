"""Paths among parameters: annotated ones start from the study's folder, whoever wrote the component."""

from __future__ import annotations

import dataclasses
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from torch import Tensor, nn

import farout
from farout import registry
from farout.study.paths import path_parameters, resolve_paths
from farout.study.spec import StudySpec

if TYPE_CHECKING:
    from nowhere import Unknown


def takes(file: Path, either: str | Path | None = None, several: list[Path] = [], name: str = "", plain=0): ...  # noqa: B006


def unresolvable(file: Path | None, other: Unknown) -> None: ...


@dataclasses.dataclass(kw_only=True)
class Rust(farout.Shift):
    name, random = "rust", False
    texture: str | Path
    depth: float = 1.0

    def apply(self, images: Tensor, params: Any) -> Tensor:
        return images


class Reader(farout.Detector):
    name = "reader"

    def __init__(self, table: Path, note: str = "") -> None: ...


class Net(nn.Module):
    def __init__(self, classes: int, init: Path | None = None) -> None: ...


def images(split: str = "test", root: Path = Path()) -> None: ...


def test_a_parameter_is_a_path_by_its_annotation() -> None:
    assert path_parameters(takes) == {"file", "either", "several"}
    assert path_parameters(unresolvable) == {"file"}
    assert path_parameters(Rust) == {"texture"}
    assert path_parameters(Reader) == {"table"}


def test_paths_are_made_absolute_and_all_else_is_left_alone(tmp_path: Path) -> None:
    given = {"file": "a/b", "either": None, "several": ["c", "/d"], "name": "e", "plain": 3}
    expected = {"file": f"{tmp_path}/a/b", "several": [f"{tmp_path}/c", "/d"]}
    assert resolve_paths(given, [takes], tmp_path) == {**given, **expected}
    assert resolve_paths({"file": "x.py:y"}, [takes], tmp_path) == {"file": f"{tmp_path}/x.py:y"}


def test_paths_of_ones_own_components_start_from_the_studys_folder(tmp_path: Path) -> None:
    for thing in (Rust, Reader):
        farout.register(thing)
    farout.register(kind="network", name="net")(Net)
    farout.register(kind="dataset", name="images")(images)
    content = {
        "inliers": {"test": {"name": "images", "options": {"root": "here"}}},
        "networks": [{"name": "net", "init": "start.bin", "weights": "w.safetensors"}],
        "detectors": [{"name": "reader", "table": "t.csv", "note": "t.csv"}],
        "protocols": [
            {"name": "rood", "frost_dir": "frost", "setups": {"own": ["fog", {"name": "rust", "texture": "r"}]}}
        ],
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content))
    spec = StudySpec.read(tmp_path / "study.yaml")
    assert spec.inliers.test.options == {"root": f"{tmp_path}/here"}
    assert spec.networks[0].params == {"init": f"{tmp_path}/start.bin"}
    assert spec.detectors[0].params == {"table": f"{tmp_path}/t.csv", "note": "t.csv"}
    assert spec.protocols[0].params == {
        "frost_dir": f"{tmp_path}/frost",
        "setups": {"own": ["fog", {"name": "rust", "texture": f"{tmp_path}/r"}]},
    }


def test_an_installed_detector_has_its_paths_resolved_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Plugin(EntryPoint):
        def load(self) -> None:
            farout.register(Reader)

    monkeypatch.setattr(registry, "_loaded_entry_points", False)
    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin("p", f"{group}:x", group)])
    (tmp_path / "study.yaml").write_text("inliers: toy\ndetectors: [{name: reader, table: t.csv}]")
    assert StudySpec.read(tmp_path / "study.yaml").detectors[0].params == {"table": f"{tmp_path}/t.csv"}


def test_a_component_may_refuse_what_a_study_must_not_hold() -> None:
    class Careful(Reader):
        name = "careful"

        @classmethod
        def check_study(cls, params: Any) -> None:
            if "note" in params:
                raise ValueError("notes are private")

    farout.register(Careful)
    study = {"name": "s", "inliers": "toy", "detectors": [{"name": "careful", "table": "t"}]}
    assert StudySpec.model_validate(study).detectors[0].name == "careful"
    study["detectors"][0]["note"] = "secret"  # type: ignore[index]
    with pytest.raises(ValueError, match="notes are private"):
        StudySpec.model_validate(study)
