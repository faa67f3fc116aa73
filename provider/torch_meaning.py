# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What imported torch code means: run in float64, and with the rounding errors of a type.

Every ATen op passes a dispatch mode.  The plain one widens floats, also those that the code brings
itself, such as the weights of a module.  The other adds the error that an op may make: half a unit
in the last place, and where it sums n products or terms that of a sum in any order, with or
without fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .reference.analysis import growth

__all__ = ["Meaning", "tensors_of"]


def tensors_of(torch: Any, returned: Any) -> list[Any]:
    """Return what torch code returned as a list of tensors."""
    values = list(returned) if isinstance(returned, list | tuple) else [returned]
    wrong = [type(v).__name__ for v in values if not isinstance(v, torch.Tensor)]
    if wrong or not values:
        raise TypeError(f"{', '.join(wrong) or 'nothing'} returned; tensors are wanted")
    return values


@dataclass(frozen=True, slots=True)
class Meaning:
    """Torch code as the reference of a custom op.

    Attributes
    ----------
    call : callable
        From tensors to tensors.
    types : sequence
        torch's types of the operands.
    """

    call: Callable[..., Any]
    types: Sequence[Any]

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the results for arrays, floats in float64."""
        return self._run(None, arrays)

    def rounded(self, rng: np.random.Generator, unit: float, *arrays: Any) -> tuple[Any, ...]:
        """Return the results where each op is off by its error, of random sign."""
        return self._run((rng, unit), arrays)

    def _run(
        self, rounding: tuple[np.random.Generator, float] | None, arrays: Sequence[Any]
    ) -> tuple[Any, ...]:
        import torch

        values = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
        values = [
            value if dtype.is_floating_point else value.to(dtype)
            for value, dtype in zip(values, self.types, strict=True)
        ]
        with torch.no_grad(), _mode(torch, rounding):
            found = tensors_of(torch, self.call(*values))
        return tuple(
            np.atleast_1d(v.to(torch.float64 if v.is_floating_point() else torch.int64).numpy())
            for v in found
        )


def _mode(torch: Any, rounding: tuple[np.random.Generator, float] | None) -> Any:
    """Return the dispatch mode; its class is made here, as torch is imported late."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    def wide(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.to(torch.float64)
        return value

    def off(value: Any, size: Any) -> Any:
        assert rounding is not None
        rng, unit = rounding
        if not isinstance(value, torch.Tensor) or value.dtype is not torch.float64:
            return value
        signs = torch.from_numpy(rng.choice([-1.0, 1.0], tuple(value.shape)))
        error = value.abs() if size is None else value.abs() + size
        # Numbers that are not finite, and exact zeros, stay.
        return value + torch.nan_to_num(signs * unit * error, 0.0, 0.0, 0.0)

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            # Views and changes in place work on the tensor itself.
            if op._schema.is_mutable or any(r.alias_info for r in op._schema.returns):
                return op(*args, **kwargs)
            args, kwargs = tree_map(wide, args), tree_map(wide, kwargs)
            found = op(*args, **kwargs)
            if rounding is None:
                return found
            size = _sum_size(torch, op, args, kwargs)
            return tree_map(lambda value: off(value, size), found)

    return Mode()


def _sum_size(torch: Any, op: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """Return the error of an op's sums in units of roundoff: growth(n) · Σ|terms|; or None."""
    name = op._schema.name.removeprefix("aten::")
    count = _SUMS.get(name, _along if name.endswith(("sum", "mean")) else None)
    if count is None:
        return None
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    terms = count(tensors, args)
    sizes = [a.abs() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
    scales = {k: abs(v) if isinstance(v, int | float) else v for k, v in kwargs.items()}
    return growth(terms) * op(*sizes, **scales)


def _row(matrix: Any, vector: Any) -> int:
    return int(matrix.shape[-1])


def _filter(tensors: Sequence[Any], args: Sequence[Any]) -> int:
    weight = tensors[1]
    transposed = bool(args[6])
    kept = weight.shape[1] * args[8] if transposed else weight.shape[0]
    return int(weight.numel() * (args[8] if transposed else 1) // max(kept, 1)) + 1


def _along(tensors: Sequence[Any], args: Sequence[Any]) -> int:
    dims = args[1] if len(args) > 1 and args[1] is not None else range(tensors[0].dim())
    return prod(tensors[0].shape[d] for d in (dims if isinstance(dims, Iterable) else [dims]))


# How many terms an element of the result has, at most.
_SUMS: dict[str, Callable[[Sequence[Any], Sequence[Any]], int]] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot"), lambda t, args: _row(*t[:2])),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), lambda t, args: _row(*t[1:3]) + 1),
    "convolution": _filter,
}
