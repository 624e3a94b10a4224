"""Grad-CAM: maps of the parts of an image that contribute to a class."""

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
"""Relative range below which a map counts as constant up to rounding."""


def grad_cam(
    network: Network, images: Tensor, classes: Tensor | Sequence[int] | int | None = None, layer: str | None = None
) -> Tensor:
    """Return maps [B, H, W] in [0, 1] of images [B, C, H, W]: Grad-CAM of Selvaraju et al. 2017, eq. 1 and 2.

    ReLU(Σ_k α_k A_k) with A the maps of a layer and α_k the spatial mean of the gradient of the selected logit with
    respect to A_k; resized bilinearly to the image, then scaled to its own minimum and maximum. A constant map, as if
    nothing contributes to the class, is 0.

    classes: the class of every image, or one for all; default: the predicted ones.
    layer: name of a submodule; default: the last block with more than one position, for a transformer with a class
        token the norm before that block's attention (see `Tap`). Channels-last maps and tokens are rearranged.
    """
    _check(network)
    images = as_images(images, network.device)
    selected = None if classes is None else _as_classes(classes, len(images), network)
    if not len(images):
        return images.new_zeros(0, *images.shape[2:])
    with with_gradients(), network.evaluating():
        maps, gradients = _maps_and_gradients(network, images.detach().clone(), selected, layer)
    with torch.no_grad():
        weights = gradients.float().mean((2, 3), keepdim=True)
        raw = (weights * maps.float()).sum(1, keepdim=True).relu()
        if not raw.isfinite().all():
            bad = int((~raw.isfinite()).flatten(1).any(1).sum())
            raise ValueError(f"the maps of {bad} of {len(raw)} images are not finite; check the weights")
        size = list(images.shape[2:])
        return _scale(F.interpolate(_scale(raw), size, mode="bilinear", antialias=True))[:, 0]


def _maps_and_gradients(
    network: Network, images: Tensor, classes: Tensor | None, layer: str | None
) -> tuple[Tensor, Tensor]:
    """Return the layer's maps and the gradients of the selected logits, both [B, C, H, W]."""
    input_size = images.shape[2:] if network.side is None else Size((network.side, network.side))
    tap = Tap(network, layer, input_size)
    with tap.open():
        logits: Tensor = network(images, needs=()).logits
    output = tap.captured()
    maps = as_maps(output.detach(), network.module, input_size)
    selected = logits.argmax(1) if classes is None else classes
    total = logits.gather(1, selected[:, None]).sum()
    gradients = torch.autograd.grad(total, output, allow_unused=True)[0] if total.requires_grad else None
    if gradients is None:
        raise ValueError(f"the logits do not depend on the output of {tap.name!r}; name another layer with layer=")
    _check_gradients(gradients, network, tap.name)
    return maps, as_maps(gradients, network.module, input_size)


def _check(network: Network) -> None:
    if isinstance(network, Ensemble):
        raise ValueError("Grad-CAM needs a single network, got an ensemble: call it for each of its members")
    if not isinstance(network, Network):
        raise TypeError(f"expected a farout.Network, got {type(network).__name__}: wrap it first")
    if not network.classes:
        raise ValueError("Grad-CAM needs a classifier, got a network without a head: add a head and train it")


def _as_classes(classes: Tensor | Sequence[int] | int, total: int, network: Network) -> Tensor:
    selected = torch.as_tensor(classes, device=network.device)
    if selected.is_floating_point() or selected.dtype == torch.bool or selected.shape not in ((), (total,)):
        raise ValueError(
            f"expected one class, or one for each of {total} images, as integers, "
            f"got {selected.dtype} of shape {list(selected.shape)}"
        )
    if selected.numel() and not 0 <= selected.min() <= selected.max() < network.classes:
        raise ValueError(f"classes are 0 to {network.classes - 1}, got {int(selected.min())} to {int(selected.max())}")
    return selected.long().expand(total)


def _check_gradients(gradients: Tensor, network: Network, name: str) -> None:
    """Raise an error if the logits depend on the class token but on no patch."""
    prefix = prefix_tokens(gradients, network.module) if gradients.ndim == 3 else 0
    if prefix and gradients[:, :prefix].any() and not gradients[:, prefix:].any():
        raise ValueError(
            f"after {name!r} the network reads only the class token, so the patches have no gradient; "
            "name a layer before the last attention, such as the first norm of the last block"
        )


def _scale(maps: Tensor) -> Tensor:
    """Scale each map [1, H, W] of a batch to 0..1; a constant map becomes 0."""
    low, high = maps.amin((1, 2, 3), keepdim=True), maps.amax((1, 2, 3), keepdim=True)
    flat = high - low <= CONSTANT * high
    return torch.where(flat, 0.0, (maps - low) / torch.where(flat, 1.0, high - low))
