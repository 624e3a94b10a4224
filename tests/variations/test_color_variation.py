"""The variation "color": images recolored as torchvision recolors float tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from farout.shifts.kernels.recolored import recolor_images
from farout.variations import Color
from helpers import slow_variations

BOUNDS = ((0.5, 1.5), (0.5, 1.5), (0.0, 2.0), (-0.5, 0.5))


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def hard_images(channels: int = 3) -> torch.Tensor:
    """Noise, few values (so that channels tie), gray, black, white, pure colors, and colors that are nearly gray."""
    images = drawn(12, channels, 8, 9)
    images[2:4] = images[2:4].mul(3).round().div(3)
    images[4] = images[4, :1]
    images[5], images[6] = 0, 1
    images[7:9] = images[7:9].round()
    images[9] = 0.5 + 1e-6 * images[9]
    images[10] = images[10] * 1e-30
    return images


def hard_latents(total: int) -> torch.Tensor:
    """Some inside the cube, some on its faces."""
    return torch.cat([drawn(total // 2, 4), drawn(total - total // 2, 4, seed=1).mul(2).sub(0.5).clamp(0, 1)])


def factors_of(z: torch.Tensor) -> torch.Tensor:
    low, high = torch.tensor(BOUNDS).T
    return low + (high - low) * z


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("path", ["compiled", "tensors"])
def test_it_is_the_definition(channels: int, path: str) -> None:
    base = torch.cat([hard_images(channels)] * 8)
    z = hard_latents(len(base))
    images = Color().decode(z, base) if path == "compiled" else recolor_images(base, factors_of(z))
    for image, given, factors in zip(images, base, factors_of(z.double()).tolist(), strict=True):
        expected = slow_variations.recolored(given.double().numpy(), *factors)
        np.testing.assert_allclose(image.numpy(), expected, atol=3e-6)
    assert images.min() >= 0
    assert images.max() <= 1


def test_both_paths_agree() -> None:
    base, z = drawn(300, 3, 16, 16), hard_latents(300)
    assert (Color().decode(z, base) - recolor_images(base, factors_of(z))).abs().max() < 2e-6


def test_known_colors() -> None:
    red = torch.tensor([1.0, 0, 0]).view(1, 3, 1, 1)
    turned = {1 / 3: [0, 1, 0], -1 / 3: [0, 0, 1], 1 / 6: [1, 1, 0], 0.5: [0, 1, 1], 1 / 12: [1, 0.5, 0]}
    for hue, expected in turned.items():
        still = {"brightness": (1, 1), "contrast": (1, 1), "saturation": (1, 1)}
        found = Color(**still, hue=(hue, hue)).decode(drawn(1, 4), red).flatten()
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32))
    gray = Color(brightness=(1, 1), contrast=(1, 1), saturation=(0, 0)).decode(drawn(1, 4), red)
    torch.testing.assert_close(gray, torch.full((1, 3, 1, 1), 0.2989))


def test_one_channel_keeps_to_brightness_and_contrast() -> None:
    base = drawn(6, 1, 5, 5)
    z, other = hard_latents(6), hard_latents(6)
    other[:, 2:] = 1 - other[:, 2:]
    assert torch.equal(Color().decode(z, base), Color().decode(other, base))


def test_gradients_are_those_of_small_steps() -> None:
    """Away from gray, from ties and from 0 and 1, where slopes change."""
    base = (0.3 + 0.1 * drawn(3, 3, 2, 3)).double()
    base += torch.tensor([0.0, 0.15, 0.3]).view(1, 3, 1, 1)
    z = (0.4 + 0.1 * drawn(3, 4, seed=1)).double()
    assert torch.autograd.gradcheck(Color().decode, (z.requires_grad_(), base.requires_grad_()))


def test_no_gradient_is_nan() -> None:
    base, z = hard_images().requires_grad_(), hard_latents(12).requires_grad_()
    for gradient in torch.autograd.grad(Color().decode(z, base).sum(), (z, base)):
        assert gradient.isfinite().all()


def test_every_image_by_its_own_latent_and_wherever_it_lies() -> None:
    base, z = hard_images(), hard_latents(12)
    images = Color().decode(z, base)
    assert torch.equal(images, torch.cat([Color().decode(z[i : i + 1], base[i : i + 1]) for i in range(12)]))
    assert torch.equal(images, Color().decode(z, base.contiguous(memory_format=torch.channels_last)))
    assert torch.equal(images[::2], Color().decode(z[::2], base[::2]))
    with torch.inference_mode():
        assert torch.equal(images, Color().decode(z, base))
    assert Color().decode(z[:0], base[:0]).shape == (0, 3, 8, 9)


def test_bases_are_left_alone() -> None:
    base = hard_images()
    before = base.clone()
    Color().decode(hard_latents(12), base)
    assert torch.equal(base, before)


def test_wrong_latents_and_settings() -> None:
    with pytest.raises(ValueError, match=r"expected latents \[12, 4\], got \[11, 4\]"):
        Color().decode(hard_latents(11), hard_images())
    with pytest.raises(ValueError, match="color varies images"):
        Color().suited((2, 8, 8))
    with pytest.raises(ValueError, match=r"hue must be .* in \[-0\.5, 0\.5\]"):
        Color(hue=(0, 1))
    with pytest.raises(ValueError, match=r"saturation must be .* in \[0, inf\]"):
        Color(saturation=(-1, 1))
