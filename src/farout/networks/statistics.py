"""Statistics of a block's output for detectors, computed in the forward pass, so that the output need not be kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.tensors import parts

ORDERS = 5
"""Maximum power of the Gram matrices; powers are 1 to this."""
GRID = 4
"""Number of rows, and of columns, of the cells that `grids` averages over."""
AT_ONCE = 2**18
"""Number of values converted to float64 at a time, so that they stay in the processor's cache."""


def by_place(output: Tensor) -> Tensor:
    """Return a block's output [B, C, H, W], tokens [B, T, C] or [B, C] as [B, places, C]."""
    match output.ndim:
        case 4:
            return output.permute(0, 2, 3, 1).flatten(1, 2)
        case 3:
            return output
        case 2:
            return output[:, None]
    raise ValueError(f"a block must return [B, C, H, W], tokens [B, T, C] or [B, C], got shape {list(output.shape)}")


def means(output: Tensor) -> Tensor:
    """Return the output averaged over places, [B, C] in float64."""
    return torch.cat([part.mean(1, dtype=torch.float64) for part in parts(by_place(output), _at_once(output))])


def grids(output: Tensor) -> Tensor:
    """Return the output averaged over each cell of a 4×4 grid, [B, 16·C] in its own precision, to save memory.

    Cells overlap if the side is not a multiple of 4 (`adaptive_avg_pool2d`). Outputs without rows and columns, such as
    tokens, are averaged over all places: [B, C].
    """
    if output.ndim != 4:
        return means(output).to(output.dtype)
    batches = parts(output, _at_once(output))
    fields = torch.cat([F.adaptive_avg_pool2d(part.double(), GRID).flatten(1) for part in batches])
    return fields.to(output.dtype)


def _at_once(output: Tensor) -> int:
    """Return the number of images whose output is converted to float64 at a time."""
    return max(1, AT_ONCE // max(1, output.shape[1:].numel()))


def grams(output: Tensor) -> Tensor:
    """Return the signed p-th roots of the row sums of the Gram matrices F^p (F^p)ᵀ, p = 1 to 5: [B, 5, C] in float64.

    F is the output as [C, places], powers are elementwise (Sastry and Oore 2020, eq. 2). The row sums are
    F^p s with s = Σ_c F_c^p, so the matrices are never computed.
    """
    rows = by_place(output)
    plain = rows.device.type == "cpu" and rows.dtype == torch.float32 and not rows.requires_grad
    if plain and not torch.onnx.is_in_onnx_export():
        from farout.networks.row_sums import row_sums  # numba is slow to import

        sums = torch.from_numpy(row_sums(rows.detach().contiguous().numpy()))  # networks run in channels-last format
    else:
        sums = _differentiable_row_sums(rows.to(torch.float64, copy=True))  # a later layer may work in place
    sizes = torch.where(
        sums == 0, 1.0, sums.abs()
    )  # the derivative of the root at 0 is infinite: gradients would be NaN
    first, second, third, fourth, fifth = sizes.unbind(1)
    roots = [
        first,
        second.sqrt(),
        third ** (1 / 3),
        fourth.sqrt().sqrt(),
        fifth ** (1 / 5),
    ]  # sqrt is faster than a power
    return sums.sign() * torch.stack(roots, 1)


def _differentiable_row_sums(rows: Tensor) -> Tensor:
    powers = [rows**order for order in range(1, ORDERS + 1)]
    return torch.stack([(power * power.sum(2, keepdim=True)).sum(1) for power in powers], 1)


STATISTICS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "blocks": torch.clone,
    "means": means,
    "grids": grids,
    "grams": grams,
}
