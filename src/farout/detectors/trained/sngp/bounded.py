"""Layers with a bounded Lipschitz constant, so that features of distant images stay distant (DUE, van Amersfoort et al.
2021)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = 1e-12


class BoundedConvolution(nn.Conv2d):
    """Convolution with weights W / max(1, σ / bound), where σ is its largest gain as a map between images.

    σ is estimated by one step of power iteration per training pass on the convolution itself, not on its reshaped
    kernel (Gouk et al. 2021, section 3.2): `image` is the current guess of the input with the largest gain.
    """

    image: Tensor

    def __init__(self, plain: nn.Conv2d, side: int, bound: float) -> None:
        super().__init__(
            plain.in_channels, plain.out_channels, plain.kernel_size, plain.stride, plain.padding,  # type: ignore[arg-type]
            bias=plain.bias is not None,
        )  # fmt: skip
        self.load_state_dict(plain.state_dict())
        self.bound, self.side = bound, side
        self.register_buffer("image", torch.randn(1, self.in_channels, side, side))
        self.iterate(20)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.iterate(1)
        weight = self.weight / (self.gain() / self.bound).clamp_min(1.0)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)

    @torch.no_grad()
    def iterate(self, steps: int) -> None:
        """Improve `image` by steps of power iteration x ← AᵀAx / ‖AᵀAx‖."""
        for _ in range(steps):
            step = self._transposed(self._convolved(self.image))
            self.image.copy_(step / step.norm().clamp_min(EPSILON))

    def gain(self) -> Tensor:
        """Return the estimate of σ, ‖A x‖ for the current unit image x; gradients reach the weights."""
        norm: Tensor = self._convolved(self.image.clone()).norm()
        return norm

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, bound={self.bound}"  # type: ignore[no-untyped-call]

    def _convolved(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, None, self.stride, self.padding)

    def _transposed(self, y: Tensor) -> Tensor:
        padding, stride, kernel = int(self.padding[0]), self.stride[0], self.kernel_size[0]
        missing = self.side - ((y.shape[-1] - 1) * stride - 2 * padding + kernel)
        return F.conv_transpose2d(y, self.weight, None, self.stride, padding, missing)


class BoundedBatchNorm(nn.BatchNorm2d):
    """Batch norm with scales γ / max(1, max |γ| / √(v + ε) / bound), v the running variance (DUE's code)."""

    def __init__(self, features: int, bound: float) -> None:
        super().__init__(features)
        self.bound = bound

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, bound={self.bound}"  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor) -> Tensor:
        assert self.running_mean is not None
        assert self.running_var is not None
        if self.training:
            self.num_batches_tracked.add_(1)  # type: ignore[union-attr]
        gain = (self.weight * (self.running_var + self.eps).rsqrt()).abs().amax()
        scale = self.weight / (gain / self.bound).clamp_min(1.0)
        momentum = 0.1 if self.momentum is None else self.momentum
        return F.batch_norm(
            x, self.running_mean, self.running_var, scale, self.bias, self.training, momentum, self.eps
        )  # fmt: skip


def bounded(network: nn.Module, channels: int, side: int, bound: float) -> nn.Module:
    """Replace all convolutions and batch norms of a network by bounded ones, in place; return the network."""
    sides: dict[nn.Module, int] = {}
    hooks = [
        one.register_forward_pre_hook(lambda module, inputs: sides.update({module: inputs[0].shape[-1]}))
        for one in network.modules()
        if isinstance(one, nn.Conv2d)
    ]
    with torch.no_grad():
        network.eval()(torch.zeros(1, channels, side, side))
    for hook in hooks:
        hook.remove()
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Conv2d):
                setattr(parent, name, BoundedConvolution(child, sides[child], bound))
            elif isinstance(child, nn.BatchNorm2d):
                setattr(parent, name, BoundedBatchNorm(child.num_features, bound))
    return network
