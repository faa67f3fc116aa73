# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A part of an FX graph that plans serve, on the memory of torch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...graph_api.errors import DeviceError, NotSupportedError
from ...jit.runtime.hip import target_of
from ...jit.target import Target
from ..offload import Executor
from ..offload.kernel import Watch
from ..offload.program import TensorType
from ..torch_import import load_torch, torch_type
from .weights import HeldWeights

__all__ = ["gpu_of", "part_call", "target_of_gpu"]


def part_call(
    executor: Executor | HeldWeights,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    weights: Collection[int] = (),
) -> Callable[..., Any]:
    """Return a call on torch tensors of what the pipeline has made.

    Parameters
    ----------
    executor : Executor or HeldWeights
    inputs, outputs : sequence of fake tensors
        What the part reads and gives, in order.
    weights : collection of int
        The inputs, by number, that `HeldWeights` takes.

    Returns
    -------
    callable
        Takes the inputs and returns a list.  An input that is not contiguous is copied first; an
        output has the strides of its fake tensor.  On a GPU it runs in the order of torch's
        current stream.  ``watch`` is told how long each graph takes, on a CPU.

    Raises
    ------
    NotSupportedError
        Where the module's buffers are not of these types, or not all on the executor's device.
    """
    torch = load_torch()
    fixed = [k for k in range(len(inputs)) if k in weights]
    plain = [k for k in range(len(inputs)) if k not in weights]
    taken = [inputs[k] for k in plain]
    _must_be(torch, [*executor.outputs, *executor.inputs], [*outputs, *taken])
    device = _device(torch, executor, [*outputs, *inputs])
    wanted = [(tuple(t.shape), tuple(t.stride()), t.dtype) for t in outputs]
    as_made = all(t.is_contiguous() for t in outputs)
    empty = torch.empty

    def call(*tensors: Any, watch: Watch | None = None) -> list[Any]:
        if isinstance(executor, HeldWeights):
            execute = executor.executor([tensors[k] for k in fixed]).execute
            tensors = tuple([tensors[k] for k in plain])
        else:
            execute = executor.execute
        found = [empty(dims, dtype=dtype, device=device) for dims, _, dtype in wanted]
        held = [t.contiguous() for t in tensors]
        addresses = [t.data_ptr() for t in (*found, *held)]
        if device is not None:
            addresses.append(torch.cuda.current_stream(device).cuda_stream)
        if watch is None:
            execute(tuple(addresses))
        else:
            execute(tuple(addresses), watch)
        return found if as_made else _restrided(torch, found, wanted)

    return call


def _restrided(torch: Any, found: list[Any], wanted: Sequence[Any]) -> list[Any]:
    """Return tensors with the strides that the rest of the graph was traced with."""
    return [
        tensor
        if tensor.stride() == strides
        else torch.empty_strided(dims, strides, dtype=dtype, device=tensor.device).copy_(tensor)
        for tensor, (dims, strides, dtype) in zip(found, wanted, strict=True)
    ]


def _device(torch: Any, executor: Executor | HeldWeights, tensors: Sequence[Any]) -> Any:
    """Return the GPU that all tensors are on, which is the executor's; None for the CPU."""
    number = executor.device_id
    wanted = None if number is None else torch.device("cuda", number)  # what ROCm's calls HIP's
    found = {t.device for t in tensors}
    if found != {wanted or torch.device("cpu")}:
        where = ", ".join(sorted(map(str, found)))
        raise NotSupportedError(f"the part has tensors on {where}; it runs on {wanted or 'cpu'}")
    return wanted


def gpu_of(values: Sequence[Any]) -> int | None:
    """Return the number of the GPU that tensors are on; None for the CPU, and without any."""
    torch = load_torch()
    devices = [value.device for value in values if isinstance(value, torch.Tensor)]
    return next((d.index or 0 for d in devices if d.type == "cuda"), None)


def target_of_gpu(number: int) -> Target:
    """Return what code for one of torch's GPUs is made for.

    Raises
    ------
    DeviceError
        If it is none of AMD's, or no code is made for it.
    """
    torch = load_torch()
    if torch.version.hip is None:
        raise DeviceError("the tensors are on a GPU that is none of AMD's, which code is made for")
    return target_of(number, torch.cuda.get_device_properties(number))


def _must_be(torch: Any, kinds: Sequence[TensorType], tensors: Sequence[Any]) -> None:
    found = [(kind.dims, torch_type(torch, kind.data_type)) for kind in kinds]
    sizes = [(dims, dtype.itemsize if dtype else 0) for dims, dtype in found]
    wanted = [(tuple(t.shape), t.dtype) for t in tensors]
    if sizes != [(dims, dtype.itemsize) for dims, dtype in wanted]:
        raise NotSupportedError(f"the part's buffers are {found}; the graph has {wanted}")
