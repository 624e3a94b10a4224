"""Studies and parts of studies that pages and the README show are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from farout.detectors.catalog import create_any
from farout.protocols import PROTOCOLS
from farout.study.spec import StudySpec

ROOT = Path(__file__).parents[2]
OTHERS = {"training.md", "extending.md"}
"""Pages whose examples have tests of their own."""
PAGES = [page for page in (ROOT / "docs").rglob("*.md") if page.name not in OTHERS]
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in [*sorted(PAGES), ROOT / "README.md"]
    for number, block in enumerate(re.findall(r"^```yaml.*?\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S))
]
MINIMAL = {"name": "shown", "inliers": "toy", "detectors": ["msp"]}
OWN = "mine"
"""Name of the reader's own component in examples."""
FILE = "gan.safetensors", "dcgan"
"""File of a generator, which is read when it is named; a name takes its place."""


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_is_a_study_or_a_part_of_one(block: str, tmp_path: Path) -> None:
    shown = yaml.safe_load(block.replace(*FILE))
    shown["networks"] = [one for one in shown.get("networks", []) if one.get("name") != OWN]
    spec = StudySpec.model_validate({**MINIMAL, **shown}, context={"folder": tmp_path})
    for protocol in spec.protocols:
        assert PROTOCOLS.create(protocol.name, **protocol.params).name == protocol.name


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 15


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_study_behind_measured_figures_is_valid(path: Path) -> None:
    spec = StudySpec.read(path)
    for item in spec.detectors:
        params = {key: value for key, value in item.params.items() if key not in ("weights", "start")}
        detector = create_any(item.name, **params)
        assert item.params.keys() <= {*detector.params, "start"}
