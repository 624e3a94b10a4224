"""Grad-CAM: which parts of an image speak for a class."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Size, Tensor

from farout.attention.grid import as_maps, prefix_tokens
from farout.attention.tap import Tap
from farout.networks.ensemble import Ensemble
from farout.networks.network import Network
from farout.networks.passes import with_gradients
from farout.tensors import as_images

CONSTANT = 1e-5
"""A map whose values differ by less than this share of the largest is constant but for rounding."""


def grad_cam(
    network: Network, images: Tensor, classes: Tensor | Sequence[int] | int | None = None, layer: str | None = None
) -> Tensor:
    """Maps [B, H, W] in [0, 1] of images [B, C, H, W]: Grad-CAM of Selvaraju et al. 2017, eq. 1 and 2.

    ReLU(Σ_k α_k A_k) with A the maps of a layer and α_k the mean over places of the chosen logit's gradient with
    respect to A_k; resized bilinearly to the image, then scaled by its own smallest and largest value. A map that is
    the same everywhere, as where nothing speaks for the class, is 0.

    classes: the class of every image, or one for all; the predicted ones unless given.
    layer: name of a submodule; unless given, the last block with more than one place, and of a transformer with a class
        token the norm before that block's attention (see `Tap`). Channels-last maps and tokens are put on their grid.
    """
    _check(network)
    images = as_images(images, network.device)
    chosen = None if classes is None else _as_classes(classes, len(images), network)
    if not len(images):
        return images.new_zeros(0, *images.shape[2:])
    with with_gradients(), network.evaluating():
        maps, slopes = _maps_and_slopes(network, images.detach().clone(), chosen, layer)
    with torch.no_grad():
        weights = slopes.float().mean((2, 3), keepdim=True)
        raw = (weights * maps.float()).sum(1, keepdim=True).relu()
        if not raw.isfinite().all():
            bad = int((~raw.isfinite()).flatten(1).any(1).sum())
            raise ValueError(f"the maps of {bad} among {len(raw)} images are not finite; are the weights sound?")
        size = list(images.shape[2:])
        return _scaled(F.interpolate(_scaled(raw), size, mode="bilinear", antialias=True))[:, 0]


def _maps_and_slopes(
    network: Network, images: Tensor, classes: Tensor | None, layer: str | None
) -> tuple[Tensor, Tensor]:
    """The layer's maps and the gradients of the chosen logits there, both [B, C, H, W]: one pass forth, one back."""
    seen = images.shape[2:] if network.side is None else Size((network.side, network.side))
    tap = Tap(network, layer, seen)
    with tap.open():
        logits: Tensor = network(images, needs=()).logits
    output = tap.taken()
    maps = as_maps(output.detach(), network.module, seen)
    chosen = logits.argmax(1) if classes is None else classes
    total = logits.gather(1, chosen[:, None]).sum()
    slopes = torch.autograd.grad(total, output, allow_unused=True)[0] if total.requires_grad else None
    if slopes is None:
        raise ValueError(f"the logits do not depend on the output of {tap.name!r}; name another layer with layer=")
    _check_slopes(slopes, network, tap.name)
    return maps, as_maps(slopes, network.module, seen)


def _check(network: Network) -> None:
    if isinstance(network, Ensemble):
        raise ValueError("Grad-CAM reads the maps of one network, got an ensemble: call it for each of its members")
    if not isinstance(network, Network):
        raise TypeError(f"expected a farout.Network, got {type(network).__name__}: wrap it first")
    if not network.classes:
        raise ValueError("Grad-CAM explains a class, and this network has no classifier: give it a head and train it")


def _as_classes(classes: Tensor | Sequence[int] | int, total: int, network: Network) -> Tensor:
    chosen = torch.as_tensor(classes, device=network.device)
    if chosen.is_floating_point() or chosen.dtype == torch.bool or chosen.shape not in ((), (total,)):
        raise ValueError(
            f"expected one class, or one for each of {total} images, as integers, "
            f"got {chosen.dtype} of shape {list(chosen.shape)}"
        )
    if chosen.numel() and not 0 <= chosen.min() <= chosen.max() < network.classes:
        raise ValueError(f"classes are 0 to {network.classes - 1}, got {int(chosen.min())} to {int(chosen.max())}")
    return chosen.long().expand(total)


def _check_slopes(slopes: Tensor, network: Network, name: str) -> None:
    """An error where the logits depend on a class token and on no patch."""
    prefix = prefix_tokens(slopes, network.module) if slopes.ndim == 3 else 0
    if prefix and slopes[:, :prefix].any() and not slopes[:, prefix:].any():
        raise ValueError(
            f"after {name!r} the network reads the class token alone, so its patches have no gradient; "
            "name a layer before the last attention, such as the first norm of the last block"
        )


def _scaled(maps: Tensor) -> Tensor:
    """Each map [1, H, W] of a batch from 0 to 1; a constant one is 0."""
    low, high = maps.amin((1, 2, 3), keepdim=True), maps.amax((1, 2, 3), keepdim=True)
    flat = high - low <= CONSTANT * high
    return torch.where(flat, 0.0, (maps - low) / torch.where(flat, 1.0, high - low))
