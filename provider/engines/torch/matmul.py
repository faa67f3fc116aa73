# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix multiplication."""

from __future__ import annotations

from math import prod
from typing import Any

from .convolution import product_type
from .torch_op import Kernel, NodeContext, TorchOp


def _bias_axis(dims: tuple[int, ...]) -> int | None:
    return len(dims) - 1 if all(d == 1 for d in dims[:-2]) else None


def _spread(x: Any, axis: int, extent: int) -> Any:
    """Repeat a smaller batch element by element, as hipDNN does; one element without a copy."""
    have = x.shape[axis]
    if have in (1, extent):
        return x
    return x.repeat_interleave(extent // have, axis)


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    a, b = n.inputs["a"].dims, n.inputs["b"].dims
    c = n.outputs["c"].dims
    kind = product_type(n, torch)
    uneven = [i for i, (m, k) in enumerate(zip(a[:-2], b[:-2], strict=True)) if m != k]
    repeated = [i for i in uneven if 1 not in (a[i], b[i])]
    if prod(a[:-2]) == prod(b[:-2]) == 1:
        return _flat(n, torch, kind, c)
    shared = prod(b[:-2]) == 1 and not repeated

    def run(a: Any, b: Any, *, out: Any = None) -> Any:
        for axis in repeated:
            a, b = _spread(a, axis, c[axis]), _spread(b, axis, c[axis])
        # One matrix for the whole batch: one product of all rows.
        return torch.matmul(a, b.reshape(b.shape[-2:]) if shared else b, out=out)

    return Kernel(run=run, loads=(kind, kind), takes_out=True)


def _flat(n: NodeContext, torch: Any, kind: Any, c: tuple[int, ...]) -> Kernel:
    """Return the product of two matrices, with a row added to each of its rows where given."""

    def run(a: Any, b: Any, bias: Any = None, *, out: Any = None) -> Any:
        a, b = a.reshape(a.shape[-2:]), b.reshape(b.shape[-2:])
        into = None if out is None else out.view(c[-2:])
        if bias is None:
            found = torch.mm(a, b, out=into)
        else:
            found = torch.addmm(bias.reshape(-1), a, b, out=into)
        return found.view(c) if out is None else out

    return Kernel(run=run, loads=(kind,) * len(n.inputs), takes_out=True)


TORCH = TorchOp(problems=NodeContext.only_floats, kernel=_kernel, bias_axis=_bias_axis)
