"""Fine-tuned vision transformer: scores of the post-hoc detectors, start weights, sizes of images."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import farout
from farout.core import ImageSet
from farout.detectors import ViT
from farout.networks.transformer import VisionTransformer
from farout.networks.weights import save_weights

BRIEF = {"epochs": 1, "batch": 16}


def toy(split: str = "train", limit: int = 48) -> ImageSet:
    return farout.load("toy", split, limit=limit)


def pictures(channels: int, side: int, count: int = 12) -> ImageSet:
    images = torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(0))
    return ImageSet.from_arrays(images.numpy(), [index % 2 for index in range(count)])


def transformer(path: Path, seed: int = 5) -> dict[str, Tensor]:
    """Write weights of a transformer with seven classes and patches of another side; return them."""
    torch.manual_seed(seed)
    network = VisionTransformer(7, 16, 3, patch=4, width=64, depth=1)
    save_weights(network, path)
    return dict(network.state_dict())


@pytest.mark.parametrize("scoring", ["mds", "rmds", "msp"])
def test_scores_are_those_of_the_post_hoc_detector_on_its_network(scoring: str) -> None:
    train, images = toy(), toy("test", 6).batch(range(6))
    detector = ViT(depth=1, scoring=scoring, training=BRIEF).fit(train, val=toy("val"), seed=2)  # type: ignore[arg-type]
    panel = farout.Panel(detector.network, [scoring])
    panel.fit(train, toy("val"))
    assert torch.equal(detector.score(images).detach(), torch.from_numpy(panel.score(images)[scoring]))
    again = ViT(depth=1, scoring=scoring, training=BRIEF).fit(train, val=toy("val"), seed=2)  # type: ignore[arg-type]
    assert again.digest == detector.digest


def test_the_features_are_the_class_token_after_the_last_norm() -> None:
    detector = ViT(depth=1, training=BRIEF).fit(toy(), val=toy("val"))
    module, images = detector.network.module, toy("test", 3).batch(range(3))
    tokens = module.patch_embed((images - 0.5) / 0.5)  # type: ignore[operator]
    tokens = torch.cat([module.cls_token.expand(3, -1, -1), tokens], 1) + module.pos_embed  # type: ignore[operator]
    expected = module.norm(module.blocks(tokens))[:, 0]  # type: ignore[operator]
    torch.testing.assert_close(detector.network(images).features, expected)


def test_training_starts_from_the_file_and_a_saved_detector_does_without_it(tmp_path: Path) -> None:
    start, out = tmp_path / "start.safetensors", tmp_path / "vit.safetensors"
    known = transformer(start)
    frozen = {"steps": 1, "batch": 16, "lr": 1e-12, "weight_decay": 0.0, "warmup_epochs": 0}
    detector = ViT(depth=1, start=start, training=frozen).fit(toy(), val=toy("val"))
    own = detector.network.state_dict()
    torch.testing.assert_close(own["blocks.0.attn.qkv.weight"], known["blocks.0.attn.qkv.weight"])
    assert own["pos_embed"].shape == (1, 1 + 8 * 8, 64)  # resampled from 4×4
    assert len(own["head.weight"]) == len(toy().classes)
    detector.save(out)
    start.unlink()
    images = toy("test", 4).batch(range(4))
    assert torch.equal(farout.detectors.load(out).score(images), detector.score(images))


def test_start_weights_are_identified_by_their_content(tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        transformer(tmp_path / f"{name}.safetensors", seed)
    a, b, c = (ViT(depth=1, start=tmp_path / f"{name}.safetensors") for name in "abc")
    assert a.identity() == b.identity() != c.identity()
    assert a.identity() != ViT(depth=1).identity()
    assert a.label == "vit (small, depth=1)"


def test_the_full_preset_needs_weights_to_start_from(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"vit with preset full is fine-tuned .* give start=FILE"):
        ViT(preset="full").fit(toy())
    with pytest.raises(FileNotFoundError, match=r"no weights to start from at .*absent\.pt"):
        ViT(start=tmp_path / "absent.pt").fit(toy())
    with pytest.raises(ValueError, match="scoring must be one of mds, rmds, msp, got 'knn'"):
        ViT(scoring="knn")  # type: ignore[arg-type]


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (1, 64)])
def test_images_of_all_sizes_are_resized_to_its_side(channels: int, side: int) -> None:
    images = pictures(channels, side)
    detector = ViT(depth=1, scoring="msp", training=BRIEF).fit(images, val=images)
    assert detector.score(images.batch(range(5))).isfinite().all()


@pytest.mark.slow
def test_the_full_preset_trains_a_step_and_scores(tmp_path: Path) -> None:
    images, start = pictures(3, 32, 4), tmp_path / "start.safetensors"
    save_weights(VisionTransformer(21, 224, 3, patch=16, width=768, depth=12), start)
    detector = ViT(preset="full", start=start, training={"steps": 1, "batch": 2, "warmup_steps": 0})
    detector.fit(images, val=images)
    count = sum(one.numel() for one in detector.network.parameters())
    assert count == 86_567_656 - 998 * 769  # timm's vit_base_patch16_224 with two classes instead of 1,000
    assert detector.score(images.batch(range(2))).isfinite().all()
