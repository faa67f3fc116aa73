"""A part of an FX graph that plans serve, on the memory of torch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...graph_api.errors import NotSupportedError
from ..offload import Executor, Module
from ..torch_import import load_torch, torch_type

__all__ = ["part_call"]


def part_call(module: Module, inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[..., Any]:
    """Return a call on torch tensors of what the pipeline has made.

    Parameters
    ----------
    module : Module
        After the whole pipeline.
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
    executor = module.executor()
    specs = [(tuple(t.shape), t.dtype) for t in inputs]
    _must_be(
        torch,
        executor,
        [*specs, *((tuple(outputs[i].shape), outputs[i].dtype) for i in executor.promoted)],
    )
    wanted = [(tuple(t.shape), tuple(t.stride()), t.dtype) for t in outputs]
    made = [(i, *wanted[i]) for i in executor.promoted]
    plain = all(t.is_contiguous() for t in outputs)
    others = [i for i in range(len(outputs)) if i not in executor.promoted]
    empty, from_numpy = torch.empty, torch.from_numpy

    def call(*tensors: Any) -> list[Any]:
        held = [t.contiguous() for t in tensors]
        found: list[Any] = [None] * len(wanted)
        for i, dims, _, dtype in made:
            found[i] = empty(dims, dtype=dtype)
            held.append(found[i])
        kept = executor.execute([t.data_ptr() for t in held])
        for i, one in zip(others, kept, strict=True):
            if isinstance(one, int):  # an argument that is handed back
                found[i] = held[one].clone()
            else:
                dims, _, dtype = wanted[i]
                found[i] = from_numpy(one.reshape(-1).view("uint8")).view(dtype).view(dims).clone()
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


def _must_be(torch: Any, executor: Executor, specs: Sequence[tuple[tuple[int, ...], Any]]) -> None:
    found = [(dims, torch_type(torch, kind)) for dims, kind in executor.arguments]
    sizes = [(dims, dtype.itemsize if dtype else 0) for dims, dtype in found]
    wanted = [(dims, dtype.itemsize) for dims, dtype in specs]
    if sizes != wanted:
        raise NotSupportedError(f"the part's buffers are {found}; the graph has {list(specs)}")
