"""The batched crop and flip against one image at a time."""

from __future__ import annotations

import numpy as np
import torch

from farout.training.augment import CropFlip, crop_flip, sample_crop_flip


def one_by_one(images: np.ndarray, params: CropFlip) -> np.ndarray:
    height, width = images.shape[2:]
    changed = []
    for image, top, left, flip in zip(images, *(value.tolist() for value in params), strict=True):
        padded = np.pad(image, ((0, 0), (4, 4), (4, 4)))
        crop = padded[:, top : top + height, left : left + width]
        changed.append(crop[:, :, ::-1] if flip else crop)
    return np.stack(changed)


def test_a_batch_equals_its_images() -> None:
    generator = torch.Generator().manual_seed(0)
    for channels, height, width in [(3, 32, 32), (1, 28, 28), (3, 9, 14)]:
        images = torch.rand(64, channels, height, width, generator=generator)
        params = sample_crop_flip(64, generator)
        assert np.array_equal(crop_flip(images, params).numpy(), one_by_one(images.numpy(), params))


def test_the_middle_crop_changes_nothing() -> None:
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    middle = torch.tensor([4, 4])
    assert torch.equal(crop_flip(images, CropFlip(middle, middle, torch.tensor([False, False]))), images)


def test_all_offsets_and_both_directions_are_drawn_alike() -> None:
    params = sample_crop_flip(90_000, torch.Generator().manual_seed(0))
    for offsets in (params.top, params.left):
        counts = torch.bincount(offsets)
        assert len(counts) == 9
        assert (counts - 10_000).abs().max() < 5 * (90_000 * 8 / 81) ** 0.5
    assert abs(params.flip.double().mean().item() - 0.5) < 5 * 0.5 / 300
    assert abs(torch.corrcoef(torch.stack([params.top, params.left]).double())[0, 1].item()) < 5 / 300
