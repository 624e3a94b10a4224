"""dn2 at a layer of the network: its values, its names, and what it says where there is no such layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import farout
from farout import ImageSet, Network, Panel, networks
from farout.core import Activations, PostHoc
from farout.detectors import DN2, MDSLayers
from farout.detectors.panel.sweeps import compute_activations
from farout.detectors.panel.table import sort_blocks
from farout.networks import save_weights
from farout.study import study
from farout.study.spec import StudySpec


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(total: int, seed: int) -> Activations:
    """Activations of a network of three blocks, whose names do not stand in the order of the alphabet."""
    widths = {"stem": 3, "body": 5, "end": 4}
    means = {name: draw(total, width, seed=seed + width) for name, width in widths.items()}
    grids = {name: draw(total, 16 * width, seed=seed + width).float() for name, width in widths.items()}
    return Activations(torch.zeros(total, 2), draw(total, 6, seed=seed).float(), means=means, grids=grids)


def brute(bank: NDArray[np.float64], queries: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Mean of the k smallest distances, all of them taken."""
    distances = np.sqrt(((queries[:, None] - bank[None]) ** 2).sum(2))
    return np.sort(distances, 1)[:, :k].mean(1)


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize(("layer", "block"), [(1, "stem"), (2, "body"), (3, "end"), ("stem", "stem"), ("end", "end")])
def test_a_layer_is_scored_by_brute_force_distances(layer: int | str, block: str, k: int) -> None:
    train, test = made(40, 0), made(9, 100)
    scores = DN2(layer=layer, k=k).fit(train, None).score(test)
    assert scores.dtype == torch.float64
    np.testing.assert_allclose(scores, brute(train.means[block].numpy(), test.means[block].numpy(), k), rtol=1e-12)


@pytest.mark.parametrize(("layer", "block"), [(1, "stem"), (3, "end"), ("body", "body")])
def test_the_fields_of_a_layer_are_scored_side_by_side(layer: int | str, block: str) -> None:
    train, test = made(40, 0), made(9, 100)
    detector = DN2(layer=layer, places="grid")
    assert detector.needs == {"grids"}
    expected = brute(train.grids[block].double().numpy(), test.grids[block].double().numpy(), 2)
    np.testing.assert_allclose(detector.fit(train, None).score(test), expected, rtol=1e-12)
    with pytest.raises(ValueError, match=r"reads the blocks' grids: needs=\{'grids'\}"):
        detector.fit(Activations(train.logits, train.features, means=train.means), None)


def test_places_are_those_of_a_layer() -> None:
    with pytest.raises(ValueError, match=r"dn2: places='grid' says how a layer is read: give layer= too"):
        DN2(places="grid")
    with pytest.raises(ValueError, match=r"places must be one of mean, grid, got 'all'"):
        DN2(layer=1, places="all")  # type: ignore[arg-type]


def test_the_last_stage_of_a_resnet_is_its_features_on_average_and_more_field_by_field() -> None:
    rng = np.random.default_rng(0)
    train, test = (ImageSet.from_arrays(rng.random((n, 3, 32, 32), np.float32)) for n in (70, 20))
    network = networks.create("resnet20", 2, 32)
    detectors = {"features": DN2(), "mean": DN2(layer="layer3"), "grid": DN2(layer="layer3", places="grid")}
    scores = Panel(network, detectors).fit(train).score(test)
    np.testing.assert_allclose(scores["mean"], scores["features"], rtol=1e-4)
    outputs: list[Tensor] = []
    hook = network.module.get_submodule("layer3").register_forward_hook(lambda _m, _i, out: outputs.append(out.clone()))
    with torch.inference_mode():
        for images in (train, test):
            network.module((images.batch(range(len(images))) - 0.5) / 0.5)
    hook.remove()
    bank, queries = (out.double().unflatten(2, (4, 2)).unflatten(4, (4, 2)).mean((3, 5)).flatten(1) for out in outputs)
    np.testing.assert_allclose(scores["grid"], brute(bank.numpy(), queries.numpy(), 2), rtol=1e-4)
    assert np.corrcoef(scores["grid"], scores["features"])[0, 1] < 0.99


def test_without_a_layer_it_reads_the_features() -> None:
    train, test = made(40, 0), made(9, 100)
    expected = brute(train.features.double().numpy(), test.features.double().numpy(), 2)
    np.testing.assert_allclose(DN2().fit(train, None).score(test), expected, rtol=1e-12)
    assert DN2().needs == {"features"}
    assert DN2(layer=1).needs == DN2(layer="stem").needs == {"means"}


@pytest.mark.parametrize("layer", [0, -1, True, 1.5])
def test_what_is_no_layer_is_refused_at_once(layer: object) -> None:
    with pytest.raises(ValueError, match=rf"layer, unless it is a name, must be a whole number.*got {layer!r}"):
        DN2(layer=layer)  # type: ignore[arg-type]


WRONG = [
    (4, "dn2: layer=4, and the network has 3 blocks: layer1, layer2, layer3"),
    ("layer22", "unknown layer of this network for dn2: 'layer22'. Did you mean 'layer2'"),
]


@pytest.mark.parametrize(("layer", "message"), WRONG)
def test_a_layer_that_the_network_has_not_is_named_before_the_long_work(layer: int | str, message: str) -> None:
    network, passed = networks.create("resnet20", 2, 16), []
    network.module.register_forward_hook(lambda _m, _i, output: passed.append(len(output)))
    train = ImageSet.from_arrays(np.random.default_rng(0).random((200, 3, 16, 16), np.float32))
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        Panel(network, [DN2(layer=layer)]).fit(train)
    assert sum(passed) < len(train) / 2
    problems = dict(farout.check(DN2(layer=layer)))
    assert message in problems["gives finite scores"]


@pytest.mark.parametrize(("layer", "message"), WRONG)
def test_a_study_names_it_before_it_starts(layer: int | str, message: str, tmp_path: Path) -> None:
    save_weights(networks.create("resnet20", 4, 32), tmp_path / "weights.safetensors")
    spec = {
        "name": "layers",
        "inliers": "toy",
        "networks": [{"name": "resnet20", "weights": str(tmp_path / "weights.safetensors"), "classes": 4}],
        "detectors": ["dn2", {"name": "dn2", "layer": layer}],
        "protocols": ["clean"],
        "budget": "quick",
    }
    with pytest.raises(ValueError, match=message):
        study.from_spec(StudySpec.model_validate(spec))


def test_a_network_is_read_at_the_places_mean_of_its_blocks() -> None:
    """Against hooks of the test's own."""
    rng = np.random.default_rng(0)
    train, test = (ImageSet.from_arrays(rng.random((n, 3, 16, 16), np.float32)) for n in (70, 20))
    network = networks.create("resnet20", 2, 16)
    panel = Panel(network, [DN2(), DN2(layer=1), DN2(layer="layer3"), DN2(layer=3, k=1)]).fit(train)
    scores = panel.score(test)
    assert list(scores) == ["dn2", "dn2(layer=1)", "dn2(layer=layer3)", "dn2(k=1, layer=3)"]

    def hooked(name: str, images: ImageSet) -> NDArray[np.float64]:
        outputs: list[Tensor] = []
        hook = network.module.get_submodule(name).register_forward_hook(lambda _m, _i, out: outputs.append(out.clone()))
        with torch.inference_mode():
            network.module((images.batch(range(len(images))) - 0.5) / 0.5)
        hook.remove()
        return outputs[0].double().numpy().mean((2, 3))

    for label, name, k in (
        ("dn2(layer=1)", "layer1", 2),
        ("dn2(layer=layer3)", "layer3", 2),
        ("dn2(k=1, layer=3)", "layer3", 1),
    ):
        expected = brute(hooked(name, train), hooked(name, test), k)
        np.testing.assert_allclose(scores[label], expected, rtol=1e-4)  # the network is float32, and batches differ
    assert not np.allclose(scores["dn2(layer=1)"], scores["dn2(layer=layer3)"])


def test_a_saved_panel_keeps_the_layer(tmp_path: Path) -> None:
    images = ImageSet.from_arrays(np.random.default_rng(0).random((30, 3, 16, 16), np.float32))
    network = networks.create("resnet20", 2, 16)
    panel = Panel(network, {"early": DN2(layer=1, places="grid"), "late": DN2(layer="layer3")}).fit(images)
    panel.save(tmp_path / "panel.safetensors")
    again = Panel.load(tmp_path / "panel.safetensors", network)
    assert again.detectors == panel.detectors
    other = torch.rand(5, 3, 16, 16)
    assert all((again.score(other)[label] == scores).all() for label, scores in panel.score(other).items())


def test_layers_can_be_tuned_and_one_that_is_not_there_fails_alone() -> None:
    rng = np.random.default_rng(0)
    train, val = (ImageSet.from_arrays(rng.random((n, 3, 16, 16), np.float32) * 0.5) for n in (40, 30))
    outliers = ImageSet.from_arrays(rng.random((30, 3, 16, 16), np.float32) * 0.5 + 0.5)
    panel = Panel(networks.create("resnet20", 2, 16), ["dn2"])
    panel.tune({"dn2": {"layer": [9, 1, None]}}, train, val, outliers=outliers)
    tried = {candidate.params["layer"]: candidate for candidate in panel.tuned["dn2"].candidates}
    assert "has 3 blocks" in tried[9].failure
    assert tried[1].auroc is not None
    assert tried[None].auroc is not None


class Deep(nn.Module):
    """Eleven blocks, whose names sort as 0, 1, 10, 2, …"""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(nn.Conv2d(3, 3, 1) for _ in range(11)))
        self.head = nn.Linear(3, 2)
        self.block_names = tuple(f"blocks.{place}" for place in range(11))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.blocks(images).mean((2, 3)))
        return logits


@pytest.mark.parametrize("detector", [DN2(layer=3), DN2(layer=11), DN2(layer=3, places="grid"), MDSLayers(epsilon=0)])
def test_a_table_in_another_order_is_read_in_the_networks(detector: PostHoc) -> None:
    """Parts of an interrupted fit come back from their file in the order of the alphabet."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Network(Deep(), mean=0.5, std=0.5, side=8)
    rng = np.random.default_rng(0)
    images = ImageSet.from_arrays(rng.random((40, 3, 8, 8), np.float32), rng.integers(0, 2, 40))
    table = compute_activations(network, images, detector.needs)
    jumbled = sort_blocks(table, sorted(network.block_names))
    assert list(jumbled.means or jumbled.grids)[2] == "blocks.10"
    scores = []
    for rows in (table, jumbled):
        panel = Panel(network, {"it": detector})
        panel.fit_from(rows, images.labels, "train")
        scores.append(panel.score(images)["it"])
        np.testing.assert_array_equal(
            panel.score_table(rows, "images", {})["it"], panel.score_table(table, "", {})["it"]
        )
    np.testing.assert_array_equal(*scores)
