"""Vision transformers (Dosovitskiy et al. 2021); `vit_tiny` has the size of DeiT-Ti (Touvron et al. 2021)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.networks.base import NETWORKS

HEAD = 64
"""Width of an attention head (Dosovitskiy et al. 2021, table 1; Touvron et al. 2021, table 1)."""


class Attention(nn.Module):
    """Multi-head self-attention (Dosovitskiy et al. 2021, eq. 5-8)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        queries, keys, values = self.qkv(x).unflatten(2, (3, -1, HEAD)).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(queries, keys, values)
        return self.proj(out.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class MLP(nn.Module):
    """Multilayer perceptron: two linear layers with a GELU between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and MLP, each after a layer norm and with a shortcut (Dosovitskiy et al. 2021, eq. 2-3)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width, eps=1e-6), Attention(width)
        self.norm2, self.mlp = nn.LayerNorm(width, eps=1e-6), MLP(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]


class PatchEmbedding(nn.Module):
    """Linear embedding of every patch of the image as one token (Dosovitskiy et al. 2021, eq. 1)."""

    def __init__(self, patch: int, channels: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, patch)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).flatten(2).transpose(1, 2)  # type: ignore[no-any-return]


def patch_of(side: int) -> int:
    """Return the patch size for this side: 4 px below 48 px, else 8, so that 28 to 64 px become about 8×8 tokens."""
    patch = 4 if side < 48 else 8
    if side % patch:
        near = side - side % patch
        raise ValueError(
            f"vit_tiny needs a side that is a multiple of its patch of {patch} px, got {side}; use side={near}"
        )
    return patch


class VisionTransformer(nn.Module):
    """ViT with a class token and learned positions (Dosovitskiy et al. 2021, eq. 1-4); parameter names as in timm.

    width: size of a token, a multiple of 64. patch: side of a patch, which divides `side`.
    """

    def __init__(self, classes: int, side: int, channels: int, *, patch: int, width: int, depth: int) -> None:
        super().__init__()
        if side % patch or width % HEAD:
            raise ValueError(
                f"a vision transformer needs a side that is a multiple of its patch, and a width that is a multiple "
                f"of {HEAD}, got side={side}, patch={patch} and width={width}"
            )
        self.side = side
        self.block_names = tuple(f"blocks.{index}" for index in range(depth))
        self.patch_embed = PatchEmbedding(patch, channels, width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + (side // patch) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)
        self._initialize()

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patch_embed(x)
        tokens = torch.cat([self.cls_token.expand(len(x), -1, -1), tokens], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(tokens))[:, 0])  # type: ignore[no-any-return]

    def _initialize(self) -> None:
        """Draw truncated normal weights (σ = 0.02) and set biases to zero (Touvron et al. 2021, section 6)."""
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.trunc_normal_(part.weight, std=0.02)
                nn.init.zeros_(part.bias)
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)


@NETWORKS.register("vit_tiny")
def vit_tiny(classes: int, side: int, channels: int) -> nn.Module:
    """ViT of the size of DeiT-Ti (Touvron et al. 2021, table 1) for small images."""
    return VisionTransformer(classes, side, channels, patch=patch_of(side), width=192, depth=12)
