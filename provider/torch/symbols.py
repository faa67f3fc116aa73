# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes that a traced graph leaves open, and the graph at given ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..torch_import import load_torch

__all__ = ["Symbols"]


class Symbols:
    """The open sizes of a graph of ATen ops.

    Parameters
    ----------
    graph_module : torch.fx.GraphModule
    example_inputs : sequence
        Fake tensors and numbers; sizes and numbers may be symbolic.

    Attributes
    ----------
    names : tuple of str
        The sizes that all others follow from; empty where the inputs do not tell them.
    """

    def __init__(self, graph_module: Any, example_inputs: Sequence[Any]) -> None:
        torch = load_torch()
        self._graph_module, self._inputs = graph_module, list(example_inputs)
        self._where: dict[str, tuple[int, int | None]] = {}
        needed, plain = set[str](), set[str]()
        for k, value in enumerate(self._inputs):
            is_tensor = isinstance(value, torch.Tensor)
            for axis, dim in enumerate(value.shape if is_tensor else [value]):
                expression = _expression(dim)
                if expression is not None:
                    self._where.setdefault(str(expression), (k, axis if is_tensor else None))
                    needed.update(map(str, expression.free_symbols))
                    if expression.is_symbol and isinstance(dim, torch.SymInt):
                        plain.add(str(expression))
        self.names = tuple(sorted(needed)) if needed <= plain else ()

    def sizes(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the open sizes and numbers of a call."""
        return {
            name: values[k] if axis is None else values[k].shape[axis]
            for name, (k, axis) in self._where.items()
        }

    def traced(self, sizes: Mapping[str, Any]) -> Any:
        """Return the graph at some sizes, with fake tensors as ``meta["val"]``."""
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.proxy_tensor import make_fx

        torch = load_torch()

        def at(dim: Any) -> Any:
            expression = _expression(dim)
            if expression is None or str(expression) in sizes:
                return dim if expression is None else sizes[str(expression)]
            return int(expression.subs({s: sizes[str(s)] for s in expression.free_symbols}))

        def fake(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return at(value)
            dims, strides = ([at(n) for n in one] for one in (value.shape, value.stride()))
            return torch.empty_strided(dims, strides, dtype=value.dtype, device=value.device)

        with FakeTensorMode(allow_non_fake_inputs=True):
            return make_fx(self._graph_module)(*map(fake, self._inputs))


def _expression(dim: Any) -> Any:
    """Return the expression of a symbolic size; None for a number."""
    expression = dim.node.expr if hasattr(dim, "node") else None
    return expression if getattr(expression, "free_symbols", None) else None
