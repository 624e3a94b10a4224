"""Weights as the start of a training: the body from the file, a new head for other classes, positions resampled."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from farout import networks
from farout.networks.fine_tuning import resampled


def saved(path: Path, name: str, classes: int, side: int = 32, seed: int = 1) -> dict[str, Tensor]:
    network = networks.create(name, classes, side, seed=seed)
    networks.save_weights(network, path)
    return dict(network.state_dict())


def body(state: dict[str, Tensor], head: str) -> dict[str, Tensor]:
    return {key: value for key, value in state.items() if not key.startswith(f"{head}.")}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("name", ["lenet", "resnet20", "vit_tiny"])
def test_other_classes_get_the_networks_own_head(name: str, tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    given, drawn = saved(file, name, 7), networks.create(name, 3, 32, seed=5)
    fresh = {key: value.clone() for key, value in drawn.state_dict().items()}
    network = networks.load_weights(drawn, file, fine_tune=True)
    head, state = network.head_name, dict(network.state_dict())
    assert network.classes == 3
    assert same(body(state, head), body(given, head))
    assert torch.equal(state[f"{head}.weight"], fresh[f"{head}.weight"])
    assert not same(body(fresh, head), body(given, head))
    again = networks.load_weights(networks.create(name, 3, 32, seed=5), file, fine_tune=True)
    other = networks.load_weights(networks.create(name, 3, 32, seed=6), file, fine_tune=True)
    assert again.digest == network.digest != other.digest


def test_as_many_classes_keep_the_files_head(tmp_path: Path) -> None:
    given = saved(tmp_path / "w.safetensors", "lenet", 7)
    network = networks.create("lenet", 7, 32, seed=5)
    networks.load_weights(network, tmp_path / "w.safetensors", fine_tune=True)
    assert same(dict(network.state_dict()), given)


def test_a_file_without_a_head_gets_one(tmp_path: Path) -> None:
    network = networks.create("lenet", 3, 32)
    head = network.head_name
    given = body(saved(tmp_path / "w.safetensors", "lenet", 7), head)
    torch.save(given, tmp_path / "body.pt")
    networks.load_weights(network, tmp_path / "body.pt", fine_tune=True)
    assert same(body(dict(network.state_dict()), head), given)


def test_without_fine_tuning_other_classes_are_an_error_as_ever(tmp_path: Path) -> None:
    saved(tmp_path / "w.safetensors", "lenet", 7)
    with pytest.raises(ValueError, match="Create the network with the classes, side and channels of the file"):
        networks.load_weights(networks.create("lenet", 3, 32), tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    ("name", "side", "channels", "said"),
    [
        ("lenet", 32, 1, r"other shapes than the network: .*Only the head may differ.*own architecture"),
        ("resnet20", 32, 3, r"lacks .*; unexpected names in it: "),
    ],
)
def test_all_but_the_head_must_fit(name: str, side: int, channels: int, said: str, tmp_path: Path) -> None:
    saved(tmp_path / "w.safetensors", "lenet", 7)
    network = networks.create(name, 3, side, channels)
    before = network.digest
    with pytest.raises(ValueError, match=said):
        networks.load_weights(network, tmp_path / "w.safetensors", fine_tune=True)
    assert network.digest == before


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    given = saved(tmp_path / "w.safetensors", "lenet", 7)
    key = next(iter(given))
    torch.save({**given, key: torch.full_like(given[key], torch.nan)}, tmp_path / "nan.pt")
    with pytest.raises(ValueError, match=f"has NaN in {key}"):
        networks.load_weights(networks.create("lenet", 3, 32), tmp_path / "nan.pt", fine_tune=True)


def test_a_module_without_a_known_head(tmp_path: Path) -> None:
    saved(tmp_path / "w.safetensors", "lenet", 7)
    with pytest.raises(TypeError, match=r"a network with a head other classes, got a Linear without one; wrap"):
        networks.load_weights(nn.Linear(2, 2), tmp_path / "w.safetensors", fine_tune=True)


def test_positions_follow_the_side(tmp_path: Path) -> None:
    """From 8 × 8 patches of 4 px to 10 × 10: a ramp stays a ramp, the class token's position as it is."""
    given = saved(tmp_path / "old.safetensors", "vit_tiny", 7, side=32)
    y, x = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    given["pos_embed"][0, 1:, 0], given["pos_embed"][0, 1:, 1] = x.flatten(), y.flatten()
    torch.save(given, tmp_path / "w.pt")
    network = networks.create("vit_tiny", 3, 40)
    networks.load_weights(network, tmp_path / "w.pt", fine_tune=True)
    state = dict(network.state_dict())
    found = state.pop("pos_embed")
    assert torch.equal(found[:, :1], given["pos_embed"][:, :1])
    steps = (torch.arange(10) + 0.5) * 0.8 - 0.5
    grid = found[0, 1:, :2].unflatten(0, (10, 10))
    inside = slice(2, 8)
    torch.testing.assert_close(grid[5, inside, 0], steps[inside], rtol=0, atol=0.03)
    torch.testing.assert_close(grid[inside, 5, 1], steps[inside], rtol=0, atol=0.03)
    kept = {key: value for key, value in given.items() if key != "pos_embed"}
    assert same(body(state, "head"), body(kept, "head"))


def test_other_patches_are_an_error(tmp_path: Path) -> None:
    saved(tmp_path / "w.safetensors", "vit_tiny", 7, side=32)
    with pytest.raises(ValueError, match=r"patch_embed\.proj\.weight \[192, 3, 4, 4\] \(expected \[192, 3, 8, 8\]\)"):
        networks.load_weights(networks.create("vit_tiny", 3, 64), tmp_path / "w.safetensors", fine_tune=True)


@pytest.mark.parametrize("shape", [(1, 65, 3), (1, 63, 4), (65, 4)])
def test_positions_that_are_no_grid_of_this_kind_are_left_alone(shape: tuple[int, ...]) -> None:
    positions = torch.rand(shape)
    assert resampled(positions, torch.zeros(1, 101, 4)) is positions
