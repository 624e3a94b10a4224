"""What the protocol evg plans: which searches, on what, how long."""

import dataclasses

import pytest
import torch

import farout
from farout.networks import create, save_weights
from farout.protocols import cuts, plan
from farout.protocols.evg.entries import EFFORT
from farout.protocols.evg.plan import Evg
from farout.search import MetropolisHastings
from farout.study.cells.search import SearchCell
from farout.study.spec import StudySpec
from farout.study.study import from_spec


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "lenet.safetensors"
    save_weights(create("lenet", 4, 32, seed=3), path)
    return path


def study(weights, budget="quick", detectors=("msp", "mls"), **evg):
    return from_spec(
        StudySpec.model_validate(
            {
                "name": "small",
                "inliers": {s: {"name": "toy", "split": s, "limit": 90} for s in ("train", "val", "test")},
                "outliers": [{"name": "toy", "split": "test/ood_cls", "limit": 300}, {"name": "noise", "limit": 40}],
                "networks": [{"name": "lenet", "weights": str(weights), "mean": [0.5], "std": [0.25]}],
                "detectors": list(detectors),
                "protocols": [{"name": "evg", **evg}],
                "budget": budget,
            }
        )
    )


def roles(entries):
    counts = {}
    for entry in entries:
        counts[entry.tags["role"]] = counts.get(entry.tags["role"], 0) + 1
    return counts


def searches(entries):
    return [entry.cell for entry in entries if isinstance(entry.cell, SearchCell)]


def test_by_default_the_columns_of_table_2(weights):
    entries = plan(study(weights))
    # 2 detectors; 2 outlier sets; pixel, affine and color; each find is shown to the other detector
    assert roles(entries) == {
        "inliers": 2, "outliers": 4, "classified": 1, "search": 12, "control": 6, "transfer": 12
    }  # fmt: skip
    pixel, affine, color = ({c.search.name for c in searches(entries) if c.variation.name == name} for name in NAMES)
    assert (pixel, affine, color) == ({"zeroth_order"}, {"mh"}, {"mh"})
    assert all(c.search == MetropolisHastings() for c in searches(entries) if c.variation.name != "pixel")


NAMES = ("pixel", "affine", "color")


def test_full_is_the_papers(weights):
    effort = EFFORT["full"]
    assert (effort.chains, effort.steps, effort.attack_steps, effort.inliers) == (5_000, 2_000, 20_000, None)
    attack, *_ = (c for c in searches(plan(study(weights, "full"))) if c.variation.name == "pixel")
    assert (attack.steps, attack.search.params["halve_every"]) == (20_000, 2_000)
    assert attack.variation.dim == 3 * 32 * 32


def test_the_attack_knows_the_radius_of_its_box(weights):
    made = study(weights, variations=["pixel", {"name": "pixel", "radius": 0.05, "label": "wide"}], control=False)
    found = {e.tags["variation"]: e.cell for e in plan(made) if e.tags["role"] == "search"}
    for label, radius in (("pixel", 0.01), ("wide", 0.05)):
        assert found[label].variation.radius == found[label].search.radius == radius


def test_chains_are_the_first_images_of_the_set(weights):
    cells = searches(plan(study(weights, chains=50, control=False, transfer=False)))
    assert {c.chains for c in cells} == {50, 40}  # the smaller set has no more
    (cell, *_) = cells
    outliers = farout.load("toy", "test/ood_cls", limit=50)
    assert torch.equal(cell.images.preview().batch(range(50)), outliers.batch(range(50)))


def test_standardized_on_validation_scores_or_on_test_ones(weights):
    val, test = (searches(plan(study(weights, standardize_on=split)))[0].reference for split in ("val", "test"))
    assert val.images.about.fingerprint == farout.load("toy", "val", limit=90).fingerprint
    assert test.images.about.fingerprint == farout.load("toy", limit=90).fingerprint


def test_without_validation_images_the_test_ones_serve(weights):
    spec = StudySpec.model_validate(
        {
            "name": "small",
            "inliers": {"test": {"name": "toy", "limit": 90}},
            "outliers": [{"name": "noise", "limit": 40}],
            "networks": [{"name": "lenet", "weights": str(weights), "classes": 4}],
            "detectors": ["msp"],
            "protocols": ["evg"],
        }
    )
    entries = plan(from_spec(spec))
    tags = [entry.tags for entry in entries if entry.tags["role"] == "search"]
    assert {tag["standardized_on"] for tag in tags} == {"test"}


def test_a_budget_cuts_what_is_asked_for_and_says_so(weights):
    quick = study(weights, chains=5_000, steps=2_000)
    assert {(c.chains, c.steps) for c in searches(plan(quick))} == {(64, 50), (40, 50)}
    assert cuts(quick) == ["4,936 of 5,000 chains of evg", "1,950 of 2,000 steps of evg"]
    full = study(weights, "full", chains=7, steps=9)
    assert {(c.chains, c.steps) for c in searches(plan(full))} == {(7, 9)}
    assert cuts(full) == []


def test_only_the_detectors_asked_for(weights):
    made = study(weights, detectors=("msp", "mls", "ebo"))
    for chosen in (["ebo"], ["msp", "mls"]):
        made.protocols[0].params["detectors"] = chosen
        assert {entry.tags["detector"] for entry in plan(made)} - {""} == set(chosen)
    made.trials.append(dataclasses.replace(made.trials[0], seed=1, subjects=made.trials[0].subjects[:1]))
    made.protocols[0].params["detectors"] = ["ebo"]  # only the first seed has it
    found = {(entry.tags["detector"], entry.tags["seed"]) for entry in plan(made)}
    assert found == {("ebo", "0"), ("", "0")}
    made.protocols[0].params["detectors"] = ["eba"]
    with pytest.raises(ValueError, match=r"unknown detector of the study: 'eba'\. Did you mean 'ebo'"):
        plan(made)


def test_transfer_goes_to_all_others(weights):
    entries = plan(study(weights, detectors=("msp", "mls", "ebo"), variations=["color"]))
    found = {(e.tags["against"], e.tags["detector"]) for e in entries if e.tags["role"] == "transfer"}
    assert found == {(a, b) for a in ("msp", "mls", "ebo") for b in ("msp", "mls", "ebo") if a != b}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variations": ["afine"]}, "Did you mean 'affine'"),
        ({"variations": [{"name": "color", "heu": [0, 1]}]}, "Did you mean 'hue'"),
        ({"variations": "color"}, "variations must list one or more of"),
        ({"variations": []}, "variations must list one or more of"),
        (
            {"variations": ["color", {"name": "color", "hue": [0, 0.1]}]},
            "two variations are called 'color'; tell them apart",
        ),
        ({"methods": ["hm"]}, "unknown search 'hm'"),
        ({"chains": 0}, "chains must be a positive integer, got 0"),
        ({"chains": True}, "chains must be a positive integer, got True"),
        ({"variations": [{"hue": [0, 1]}]}, "variations: expected a name, or a mapping with a name and settings"),
        ({"methods": [3]}, "methods: expected a name, or a mapping with a name and settings, got 3"),
        ({"detectors": "msp"}, "detectors must list the labels of one or more detectors, got 'msp'"),
        ({"detectors": []}, "detectors must list the labels of one or more detectors"),
        ({"steps": "many"}, "steps must be a positive integer, got 'many'"),
        ({"standardize_on": "train"}, "standardize_on must be val or test"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Evg(**settings)


def test_images_that_a_variation_cannot_vary(weights):
    with pytest.raises(ValueError, match=r"protocol evg: .*rendered images"):
        plan(study(weights, variations=["attributes"]))


def test_without_images_there_is_nothing_to_vary():
    noise = farout.load("noise", limit=4)
    with pytest.raises(ValueError, match="outliers: got a set without images, 'noise'; expected at least one image"):
        farout.stress(lambda images: images.mean((1, 2, 3)), noise, noise.subset([]), protocols="evg")
