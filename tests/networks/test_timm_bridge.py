"""The bridge to timm: what it says where timm is missing, and timm's networks where it is there."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import farout
from farout import networks
from farout.networks import timm_bridge
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import from_spec

needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason='needs pip install "farout[timm]"')


def images(side: int) -> torch.Tensor:
    return torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0))


def test_the_error_without_timm_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    monkeypatch.setattr(timm_bridge, "mend_torchvision", lambda: None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "farout\[timm\]"'):
        networks.create("resnet50", 10, 224)


@needs_timm
@pytest.mark.parametrize(
    ("name", "side", "head", "width", "count"),
    [  # counts: torchvision's num_params (inception_v3 less its auxiliary head), vit_tiny timm's own
        ("vit_b16", 224, "head", 768, 86_567_656),
        ("swin_t", 224, "head.fc", 768, 28_288_354),
        ("mobilenet_v3_large", 224, "classifier", 1280, 5_483_032),
        ("efficientnet_b0", 224, "classifier", 1280, 5_288_548),
        ("resnet50", 224, "fc", 2048, 25_557_032),
        ("densenet121", 224, "classifier", 1024, 7_978_856),
        ("inception_v3", 299, "fc", 2048, 23_834_568),
        ("vit_tiny", 224, "head", 192, 5_717_416),
    ],
)
def test_large_networks_have_head_features_and_blocks(name: str, side: int, head: str, width: int, count: int) -> None:
    network = networks.create(name, 1000, side)
    assert sum(p.numel() for p in network.parameters()) == count
    assert network.head_name == head
    assert network.side == side
    with torch.no_grad():
        found = network(images(32))
    assert found.features.shape == (2, width)
    torch.testing.assert_close(found.logits, F.linear(found.features, *network.head))
    assert len(found.blocks) >= 4 or name == "swin_t"


@needs_timm
@pytest.mark.parametrize(("name", "side"), [("efficientnet_b0", 32), ("mobilenet_v3_large", 28), ("swin_t", 64)])
def test_small_images_pass_where_the_architecture_allows(name: str, side: int) -> None:
    with torch.inference_mode():
        found = networks.create(name, 4, side, channels=1)(images(side)[:, :1])
    assert found.logits.shape == (2, 4)
    for block in list(found.blocks.values())[:1]:
        assert block.shape[2:] == (side, side), "the stem must not stride"


@needs_timm
def test_blocks_are_kept_as_the_stages_left_them() -> None:
    network = networks.create("densenet121", 10, 96)
    copies: dict[str, torch.Tensor] = {}
    for name in network.block_names:
        network.module.get_submodule(name).register_forward_hook(
            lambda _m, _i, output, name=name: copies.__setitem__(name, output.clone())
        )
    with torch.inference_mode():
        found = network(images(96))
    assert all(torch.equal(found.blocks[name], copies[name]) for name in network.block_names)


@needs_timm
def test_weights_come_from_the_seed_alone() -> None:
    before = torch.get_rng_state()
    first = networks.create("efficientnet_b0", 10, 96)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert networks.create("efficientnet_b0", 10, 96).digest == first.digest


@needs_timm
def test_without_a_connection_pretrained_weights_fail_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    said = r"pretrained weights of vit_b32 .* could not be fetched .*weights: file.* and classes: 0.*load_weights"
    with pytest.raises(ConnectionError, match=said):
        networks.create("vit_b32", 10, 224, pretrained=True)


@needs_timm
@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), KeyError("fc"), MemoryError()])
def test_what_else_goes_wrong_with_pretrained_weights_is_no_lack_of_a_connection(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(timm_bridge.load_timm("timm"), "create_model", fail)
    with pytest.raises(type(error)) as caught:
        networks.create("resnet18", 10, 224, pretrained=True)
    assert caught.value is error


@needs_timm
@pytest.mark.parametrize(
    ("name", "classes", "side", "channels", "mean"),
    [
        ("resnet18", 10, 96, 3, (0.485, 0.456, 0.406)),
        ("resnet18", 0, 32, 3, (0.485, 0.456, 0.406)),
        ("resnet18", 10, 32, 3, (0.5, 0.5, 0.5)),  # of ours
        ("timm:resnet18", 10, 32, 3, (0.485, 0.456, 0.406)),
        ("efficientnet_b0", 10, 32, 3, (0.485, 0.456, 0.406)),
        ("resnet18", 10, 96, 1, (0.5,)),
        ("timm:vit_tiny_patch16_224", 10, 64, 3, (0.5, 0.5, 0.5)),  # what its weights saw
    ],
)
def test_networks_that_timm_builds_have_its_normalizer(
    name: str, classes: int, side: int, channels: int, mean: tuple[float, ...]
) -> None:
    network = networks.create(name, classes, side, channels)
    assert tuple(network.mean.flatten().tolist()) == pytest.approx(mean)
    given = networks.create(name, classes, side, channels, mean=0.25, std=0.75)
    assert (given.mean == 0.25).all()
    assert (given.std == 0.75).all()


@needs_timm
def test_pretrained_networks_see_colors() -> None:
    with pytest.raises(ValueError, match="pretrained networks take 3 channels, got channels=1"):
        networks.create("resnet50", 10, 224, 1, pretrained=True)


@needs_timm
def test_vit_tiny_computes_what_timms_transformer_does() -> None:
    ours = networks.create("vit_tiny", 10, 32)
    timm_bridge.load_timm("vit_tiny")
    transformer = importlib.import_module("timm.models.vision_transformer").VisionTransformer
    theirs = transformer(img_size=32, patch_size=4, embed_dim=192, depth=12, num_heads=3, num_classes=10).eval()
    state = {
        key: value + 0.01 * torch.arange(value.numel()).view(value.shape).cos()
        for key, value in ours.state_dict().items()
    }
    ours.load_state_dict(state)
    theirs.load_state_dict(state)
    with torch.inference_mode():
        torch.testing.assert_close(ours(images(32)).logits, theirs((images(32) - 0.5) / 0.5), rtol=1e-4, atol=1e-4)


@needs_timm
def test_inception_computes_what_timms_does_behind_the_same_stem() -> None:
    ours = networks.create("inception_v3", 10, 32).module
    timm_bridge.load_timm("inception_v3")
    theirs = importlib.import_module("timm.models.inception_v3").InceptionV3(num_classes=10).eval()
    for name, convolution in [
        (n, m) for n, m in theirs.named_modules() if n.startswith("Conv2d_") and n.endswith("conv")
    ]:
        convolution.stride, convolution.padding = (1, 1), (0, 0) if "1x1" in name else (1, 1)
    theirs.Pool1, theirs.Pool2 = torch.nn.Identity(), torch.nn.Identity()
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values(), strict=True)))
    with torch.inference_mode():
        torch.testing.assert_close(ours(images(32)), theirs(images(32)), rtol=1e-4, atol=1e-4)


TINY = "timm:test_vit.r160_in1k"
"""A vision transformer of 366,000 weights that timm has for tests."""


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> networks.Network:
    """A network of 7 classes at 64 px whose weights stand for the ones that timm would fetch."""
    network = networks.create(TINY, 7, 64, seed=3)
    file = tmp_path / "fetched.safetensors"
    networks.save_weights(network, file)
    timm = timm_bridge.load_timm("timm")
    make, overlay = timm.create_model, {"file": str(file), "num_classes": 7, "input_size": (3, 64, 64)}
    monkeypatch.setattr(timm, "create_model", lambda *a, **o: make(*a, pretrained_cfg_overlay=overlay, **o))
    monkeypatch.setattr(timm_bridge, "expect_weights", lambda _name: None)
    return network


def same_body(first: networks.Network, second: networks.Network, *but: str) -> bool:
    one, two = first.state_dict(), second.state_dict()
    return all(torch.equal(one[key], two[key]) for key in one if not key.startswith(("head.", *but)))


@needs_timm
def test_pretrained_weights_get_a_new_head_to_be_fine_tuned(fetched: networks.Network) -> None:
    first, again = (networks.create(TINY, 3, 64, pretrained=True, fine_tune=True, seed=0) for _ in range(2))
    other = networks.create(TINY, 3, 64, pretrained=True, fine_tune=True, seed=1)
    assert (first.classes, first.head_name) == (3, "head")
    assert same_body(first, fetched)
    assert same_body(other, fetched)
    assert first.digest == again.digest != other.digest
    assert networks.create(TINY, 3, 64, pretrained=True).classes == 0


@needs_timm
def test_local_weights_of_timms_network_get_a_new_head(fetched: networks.Network, tmp_path: Path) -> None:
    network = networks.create(TINY, 3, 64, seed=0)
    networks.load_weights(network, tmp_path / "fetched.safetensors", fine_tune=True)
    assert same_body(network, fetched)
    assert network.classes == 3


@needs_timm
def test_positions_at_another_side_are_timms(fetched: networks.Network, tmp_path: Path) -> None:
    local = networks.create(TINY, 3, 96, seed=0)
    networks.load_weights(local, tmp_path / "fetched.safetensors", fine_tune=True)
    theirs = networks.create(TINY, 3, 96, pretrained=True, fine_tune=True, seed=0)
    assert same_body(local, theirs, "pos_embed")
    assert local.module.pos_embed.shape != fetched.module.pos_embed.shape
    torch.testing.assert_close(local.module.pos_embed, theirs.module.pos_embed, rtol=0, atol=1e-6)


@needs_timm
def test_pretrained_networks_to_be_fine_tuned_need_classes(fetched: networks.Network) -> None:
    with pytest.raises(ValueError, match="expected at least 2 classes"):
        networks.create(TINY, 1, 64, pretrained=True, fine_tune=True)


@needs_timm
def test_a_study_fine_tunes_pretrained_weights(fetched: networks.Network, tmp_path: Path) -> None:
    for seed, split in enumerate(("train", "val", "test")):
        images = np.random.default_rng(seed).integers(0, 256, (12, 64, 64, 3), dtype=np.uint8)
        np.savez(tmp_path / f"{split}.npz", images=images, labels=np.arange(12) % 3)
    content = {
        "name": "tuned",
        "inliers": {split: str(tmp_path / f"{split}.npz") for split in ("train", "val", "test")},
        "outliers": [{"name": "noise", "limit": 8}],
        "networks": [{"name": TINY, "pretrained": True, "train": {"epochs": 1, "batch": 6, "lr": 0.01}}],
        "detectors": ["msp"],
    }
    spec = StudySpec.model_validate(content)
    network = from_spec(spec).trials[0].subjects[0].fit.network  # type: ignore[attr-defined]
    assert same_body(network.preview(), fetched)
    assert network.cell.identity["untrained"] == networks.create(TINY, 3, 64, pretrained=True, fine_tune=True).digest
    result = farout.run(spec, tmp_path / "runs")
    assert not result.outcome.failed
    trained = network.build(Store(tmp_path / "runs"))
    assert trained.classes == 3
    assert not same_body(trained, fetched)
