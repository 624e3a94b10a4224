"""The reference of study files has every key of every model, with its type, default and meaning."""

from __future__ import annotations

import pytest

from farout.protocols import names
from farout.study.spec import StudySpec
from generate import expand
from generate.studies import keys, models, study, title

SECTIONS = {part.split("\n", 1)[0]: part for part in study().split("## ")[1:]}
MODELS = {title(model): model for model in models(StudySpec)}


def row(section: str, key: str) -> list[str]:
    """Return the cells of a key: type, default and meaning."""
    (line,) = (line for line in SECTIONS[section].splitlines() if line.startswith(f"| `{key}` |"))
    return [cell.strip() for cell in line.strip("| ").split(" | ")][1:]


def test_every_model_that_a_study_leads_to_has_a_section() -> None:
    of_images, of_components = "data, near_ood, shifted, generated", "network, ensemble, detector, protocol, generator"
    expected = f"The study, inliers, {of_images}, {of_components}, train"
    assert set(SECTIONS) == set(MODELS) == set(expected.split(", "))


@pytest.mark.parametrize("section", MODELS)
def test_every_key_has_a_type_a_default_and_a_meaning(section: str) -> None:
    fields = getattr(MODELS[section], "model_fields", None) or MODELS[section].__dataclass_fields__
    assert set(keys(MODELS[section])) == set(fields) - ({"seed"} if section == "train" else set())
    for key in keys(MODELS[section]):
        kind, default, meaning = row(section, key)
        assert kind not in ("", "any value"), key
        assert default, key
        assert len(meaning) > 5, key


@pytest.mark.parametrize(
    ("section", "key", "kind", "default"),
    [
        ("The study", "seeds", "list of whole number", "`[0]`"),
        ("The study", "budget", "`quick` or `standard` or `full`", "`standard`"),
        ("The study", "detectors", "list of [detector](#detector)", "required"),
        ("The study", "networks", "list of [network](#network) or [ensemble](#ensemble)", "none"),
        ("inliers", "val", "[data](#data)", "none"),
        ("data", "limit", "whole number", "none"),
        ("network", "pretrained", "`true` or `false`", "`false`"),
        ("network", "weights", "text or list of text", "none"),
        ("shifted", "lambda_p", "number", "`2.0`"),
        ("near_ood", "generator", "[generator](#generator)", "`dcgan`"),
        ("train", "betas", "list of number", "`[0.9, 0.999]`"),
        ("train", "epochs", "whole number", "none"),
    ],
)
def test_types_and_defaults_are_those_of_the_model(section: str, key: str, kind: str, default: str) -> None:
    assert row(section, key)[:2] == [kind, default]


@pytest.mark.parametrize("name", names())
def test_parameters_of_protocols_have_meanings(name: str) -> None:
    lines = expand(f"{{{{ protocol {name} }}}}").splitlines()[2:]
    assert [line for line in lines if line.endswith("|  |")] == []
    if name == "rood":
        assert any(line.startswith("| `setups` | `('A', 'C')` |") for line in lines)
