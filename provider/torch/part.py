"""A part of an FX graph that plans serve, on the memory of torch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...graph_api.errors import NotSupportedError
from ..offload import Executor
from ..offload.program import TensorType
from ..torch_import import load_torch, torch_type

__all__ = ["part_call"]


def part_call(
    executor: Executor, inputs: Sequence[Any], outputs: Sequence[Any]
) -> Callable[..., Any]:
    """Return a call on torch tensors of what the pipeline has made.

    Parameters
    ----------
    executor : Executor
    inputs, outputs : sequence of fake tensors
        What the part reads and gives, in order.

    Returns
    -------
    callable
        Takes the inputs and returns a list.  An input that is not contiguous is copied first; an
        output has the strides of its fake tensor.

    Raises
    ------
    NotSupportedError
        Where the module's buffers are not of these types.
    """
    torch = load_torch()
    _must_be(torch, [*executor.outputs, *executor.inputs], [*outputs, *inputs])
    wanted = [(tuple(t.shape), tuple(t.stride()), t.dtype) for t in outputs]
    plain = all(t.is_contiguous() for t in outputs)
    execute, empty = executor.execute, torch.empty

    def call(*tensors: Any) -> list[Any]:
        found = [empty(dims, dtype=dtype) for dims, _, dtype in wanted]
        held = [t.contiguous() for t in tensors]
        execute((*[t.data_ptr() for t in found], *[t.data_ptr() for t in held]))
        return found if plain else _restrided(torch, found, wanted)

    return call


def _restrided(torch: Any, found: list[Any], wanted: Sequence[Any]) -> list[Any]:
    """Return tensors with the strides that the rest of the graph was traced with."""
    return [
        tensor
        if tensor.stride() == strides
        else torch.empty_strided(dims, strides, dtype=dtype).copy_(tensor)
        for tensor, (dims, strides, dtype) in zip(found, wanted, strict=True)
    ]


def _must_be(torch: Any, kinds: Sequence[TensorType], tensors: Sequence[Any]) -> None:
    found = [(kind.dims, torch_type(torch, kind.data_type)) for kind in kinds]
    sizes = [(dims, dtype.itemsize if dtype else 0) for dims, dtype in found]
    wanted = [(tuple(t.shape), t.dtype) for t in tensors]
    if sizes != [(dims, dtype.itemsize) for dims, dtype in wanted]:
        raise NotSupportedError(f"the part's buffers are {found}; the graph has {wanted}")
