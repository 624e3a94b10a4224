"""Weights on disk: what is written is read back, common foreign files are read, and misfits are named."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch

from farout import networks


@pytest.fixture
def network() -> networks.Network:
    return networks.create("resnet20", 10, 32, seed=1)


def other() -> networks.Network:
    return networks.create("resnet20", 10, 32, seed=2)


def test_what_is_saved_is_loaded(network: networks.Network, tmp_path: Path) -> None:
    networks.save_weights(network, tmp_path / "new" / "weights.safetensors")
    loaded = other()
    networks.load_weights(loaded, tmp_path / "new" / "weights.safetensors")
    assert loaded.digest == network.digest
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["weights.safetensors"]
    assert loaded.module.conv1.weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("form", ["plain", "wrapped", "prefixed", "both"])
def test_files_of_torch_save_are_loaded(network: networks.Network, tmp_path: Path, form: str) -> None:
    state = dict(network.state_dict())
    if form in ("prefixed", "both"):
        state = {f"module.{key}": value for key, value in state.items()}
    torch.save({"state_dict": state, "epoch": 3} if form in ("wrapped", "both") else state, tmp_path / "weights.pth")
    loaded = other()
    networks.load_weights(loaded, tmp_path / "weights.pth")
    assert loaded.digest == network.digest


def test_missing_counters_of_batch_norms_are_forgiven(network: networks.Network, tmp_path: Path) -> None:
    state = {key: value.contiguous() for key, value in network.state_dict().items() if "num_batches" not in key}
    safetensors.torch.save_file(state, tmp_path / "weights.safetensors")
    loaded = other()
    networks.load_weights(loaded, tmp_path / "weights.safetensors")
    assert loaded.digest == network.digest


def test_other_keys_are_named_on_both_sides(network: networks.Network, tmp_path: Path) -> None:
    state = {key.replace("linear", "fc"): value for key, value in network.state_dict().items()}
    torch.save(state, tmp_path / "weights.pt")
    before = network.digest
    with pytest.raises(ValueError, match=r"lacks linear\.bias, linear\.weight; unexpected names in it: fc\.bias"):
        networks.load_weights(network, tmp_path / "weights.pt")
    assert network.digest == before


def test_keys_too_many_are_named(network: networks.Network, tmp_path: Path) -> None:
    networks.save_weights(networks.create("resnet32", 10, 32), tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=r"has layer1\.3\.bn1\.bias, .* and \d+ more, which the network does not have"):
        networks.load_weights(network, tmp_path / "w.safetensors")


def test_other_shapes_are_named(network: networks.Network, tmp_path: Path) -> None:
    networks.save_weights(networks.create("resnet20", 100, 32), tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=r"linear\.weight \[100, 64\] \(expected \[10, 64\]\)"):
        networks.load_weights(network, tmp_path / "w.safetensors")


class Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("this must not run",)


def test_nothing_but_tensors_is_unpickled(
    network: networks.Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"state_dict": Harmful()}, tmp_path / "w.pt")
    with pytest.raises(ValueError, match="cannot be read as weights"):
        networks.load_weights(network, tmp_path / "w.pt")
    assert "must not run" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
@pytest.mark.parametrize("content", [b"", b"not weights", pickle.dumps([1, 2], protocol=2)])
def test_damaged_files_are_refused(network: networks.Network, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} (cannot be read as weights|holds a list)"):
        networks.load_weights(network, tmp_path / name)


def test_a_missing_file_is_named(network: networks.Network, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no weights at .*nowhere"):
        networks.load_weights(network, tmp_path / "nowhere.safetensors")
