"""Grad-CAM of transformers: tokens put back on their grid, channels-last maps, the layer that is read."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import farout
from farout.attention import grad_cam
from farout.attention.grid import as_maps, prefix_tokens
from farout.networks.network import Network


def draw(count: int, side: int = 32) -> Tensor:
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(0))


def token_loop(network: Network, layer: str, images: Tensor, prefix: int) -> Tensor:
    """Image by image, patch by patch: the token at row r and column c of the grid is number prefix + r·g + c."""
    maps = []
    for image in images:
        kept: list[Tensor] = []
        hook = network.module.get_submodule(layer).register_forward_hook(
            lambda _m, _i, out, kept=kept: kept.append(out)
        )
        logits = network.module(network.normalize(image[None]))[0]
        hook.remove()
        (slopes,) = torch.autograd.grad(logits[logits.argmax()], kept[0])
        tokens, weights = kept[0][0, prefix:].detach(), slopes[0, prefix:].mean(0)
        side = round(len(tokens) ** 0.5)
        raw = torch.zeros(side, side)
        for row in range(side):
            for column in range(side):
                raw[row, column] = max(float(tokens[row * side + column] @ weights), 0)
        full = F.interpolate(raw[None, None], image.shape[1:], mode="bilinear")[0, 0]
        maps.append((full - full.min()) / (full.max() - full.min()))
    return torch.stack(maps)


class Tokens(nn.Module):
    """Patches of 4 px as tokens, behind so many others; one attention; the head reads the mean of the patches."""

    def __init__(self, extra: int, *, say: bool = False) -> None:
        super().__init__()
        self.embed, self.extra = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.zeros(1, extra, 8))
        self.block, self.linear = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), nn.Linear(8, 5)
        self.block_names, self.side = ("block",), 16
        if say:
            self.num_prefix_tokens = extra
        generator = torch.Generator().manual_seed(2)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = self.block(torch.cat([self.extra.expand(len(x), -1, -1), x], 1))
        return self.linear(x[:, self.extra.shape[1] :].mean(1))


class ChannelsLast(nn.Module):
    """Maps [B, H, W, C] as Swin's stages give, with a block that names itself or a stage that timm would name."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed, self.stage = nn.Conv2d(3, width, 4, 4), nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.linear = nn.Linear(width, 5)
        self.block_names, self.side = (), 16
        self.feature_info = [{"module": "stage"}]
        self.output_fmt = "NHWC"
        generator = torch.Generator().manual_seed(2)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.stage(self.embed(x).permute(0, 2, 3, 1)).mean((1, 2)))


def test_a_class_token_transformer_is_read_at_the_norm_before_its_last_attention() -> None:
    network = farout.networks.create("vit_tiny", classes=7, side=32)
    expected = token_loop(network, "blocks.11.norm1", draw(3), prefix=1)
    torch.testing.assert_close(grad_cam(network, draw(3)), expected, atol=2e-4, rtol=0)


def test_other_layers_of_a_transformer_by_name() -> None:
    network = farout.networks.create("vit_tiny", classes=7, side=32)
    for layer, prefix in (("blocks.10", 1), ("blocks.4.norm2", 1), ("patch_embed", 0)):
        expected = token_loop(network, layer, draw(2), prefix)
        torch.testing.assert_close(grad_cam(network, draw(2), layer=layer), expected, atol=2e-4, rtol=0)


def test_patches_that_no_logit_reads_are_an_error() -> None:
    network = farout.networks.create("vit_tiny", classes=7, side=32)
    for layer in ("blocks.11", "blocks.11.norm2", "norm"):
        with pytest.raises(ValueError, match="reads only the class token"):
            grad_cam(network, draw(2), layer=layer)


def test_tokens_without_others_before_them_are_read_at_the_last_block() -> None:
    network = Network(Tokens(0), mean=0.5, std=0.5)
    expected = token_loop(network, "block", draw(3, 16), prefix=0)
    torch.testing.assert_close(grad_cam(network, draw(3, 16)), expected, atol=1e-4, rtol=0)


def test_a_block_whose_norms_come_last_asks_for_a_layer() -> None:
    network = Network(Tokens(1), mean=0.5, std=0.5)
    with pytest.raises(ValueError, match="none of its norms reads its input"):
        grad_cam(network, draw(2, 16))
    expected = token_loop(network, "block", draw(2, 16), prefix=1)  # its head reads the patches
    torch.testing.assert_close(grad_cam(network, draw(2, 16), layer="block"), expected, atol=1e-4, rtol=0)


def test_the_module_says_how_many_tokens_are_no_patches() -> None:
    """16 patches behind 9 others are 25, a square too."""
    said, unsaid = Tokens(9, say=True), Tokens(9)
    tokens = torch.zeros(1, 25, 8)
    assert (prefix_tokens(tokens, said), prefix_tokens(tokens, unsaid)) == (9, 0)
    assert prefix_tokens(tokens[:, :16], said) == 0  # where what it says leaves no square
    network = Network(said, mean=0.5, std=0.5)
    expected = token_loop(network, "block", draw(2, 16), prefix=9)
    torch.testing.assert_close(grad_cam(network, draw(2, 16), layer="block"), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("total", [1, 2, 3, 4, 5, 50, 65, 196, 197, 198])
def test_the_largest_square_of_tokens_is_the_grid(total: int) -> None:
    largest = max(side for side in range(1, 20) if side**2 <= total)
    assert prefix_tokens(torch.zeros(1, total, 3), nn.Identity()) == total - largest**2


@pytest.mark.parametrize("width", [7, 4])
def test_channels_last_maps(width: int) -> None:
    """Of [B, 4, 4, 4] only the module can tell what is what."""
    module = ChannelsLast(width)
    network = Network(module, mean=0.5, std=0.5)
    assert network.block_names == ()
    images = draw(3, 16)
    with torch.no_grad():
        values = module.stage(module.embed(network.normalize(images)).permute(0, 2, 3, 1))
        chosen = module(network.normalize(images)).argmax(1)
        cams = torch.einsum("bk,bhwk->bhw", module.linear.weight[chosen], values).relu()  # CAM, as in the closed form
    full = F.interpolate(cams[:, None], (16, 16), mode="bilinear")[:, 0]
    low, high = full.amin((1, 2), keepdim=True), full.amax((1, 2), keepdim=True)
    torch.testing.assert_close(grad_cam(network, images), (full - low) / (high - low), atol=1e-5, rtol=0)


def test_layouts_told_apart_by_which_reading_is_square() -> None:
    numbers = torch.arange(2 * 3 * 5 * 5).view(2, 3, 5, 5)
    square, wide, says = torch.Size((20, 20)), torch.Size((20, 28)), ChannelsLast(4)
    assert torch.equal(as_maps(numbers, says, square), numbers)
    assert torch.equal(as_maps(numbers.permute(0, 2, 3, 1), nn.Identity(), square), numbers)
    oblong = torch.arange(2 * 5 * 5 * 7).view(2, 5, 5, 7)
    assert torch.equal(as_maps(oblong, nn.Identity(), wide), oblong)
    with pytest.raises(ValueError, match="square images, got 20×28 px"):
        as_maps(torch.zeros(1, 35, 3), nn.Identity(), wide)
