"""Pretrained weights that would have to be downloaded are announced, and nothing is downloaded to find out."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from farout.data.download import NotDownloaded, offline
from farout.networks import timm_bridge


def config(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"hf_hub_id": None, "hf_hub_filename": None, "url": "", **changes})


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What timm says of weights, by name, and the files that the hub has kept; both can be changed."""
    configs: dict[str, Any] = {"kept": set()}
    hub = ModuleType("huggingface_hub")
    hub.try_to_load_from_cache = lambda place, file: (  # type: ignore[attr-defined]
        f"cache/{file}" if (place, file) in configs["kept"] else None
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setattr(timm_bridge, "_config", configs.__getitem__)
    return configs


def test_weights_of_the_hub(known: dict[str, Any]) -> None:
    known["resnet18"] = config(hf_hub_id="timm/resnet18.a1_in1k")
    with offline() as absent, pytest.raises(NotDownloaded, match="the weights of resnet18"):
        timm_bridge.expect_weights("resnet18")
    assert absent == {"the weights of resnet18": "https://huggingface.co/timm/resnet18.a1_in1k"}
    known["kept"] = {("timm/resnet18.a1_in1k", "model.safetensors")}
    with offline() as absent:
        timm_bridge.expect_weights("resnet18")
    assert absent == {}


def test_weights_of_an_address(known: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    known["vgg11"] = config(url="https://example.org/vgg11-abc.pth")
    with offline() as absent, pytest.raises(NotDownloaded):
        timm_bridge.expect_weights("vgg11")
    assert absent == {"the weights of vgg11": "https://example.org/vgg11-abc.pth"}
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "vgg11-abc.pth").write_bytes(b"")
    with offline():
        timm_bridge.expect_weights("vgg11")


def test_with_downloads_nothing_is_announced(known: dict[str, Any]) -> None:
    known["resnet18"] = config(hf_hub_id="timm/resnet18.a1_in1k")
    timm_bridge.expect_weights("resnet18")
