"""The study settings that docs/training.md shows are valid."""

import re
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from farout.networks import NETWORKS
from farout.study.spec import AnyNetwork

TEXT = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml.*?\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


def test_the_networks_of_the_docs_can_be_named_in_a_study() -> None:
    entry = TypeAdapter(AnyNetwork)
    networks = [
        part
        for block in BLOCKS
        for one in yaml.safe_load(block)["networks"]
        for part in entry.validate_python(one).parts
    ]
    assert len(networks) >= 10
    assert [one.name for one in networks if one.name not in NETWORKS] == []
    assert all(one.train or one.weights or one.pretrained for one in networks)
