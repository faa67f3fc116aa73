# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Device buffers over the caller's memory, and staging copies of memory that IREE cannot use.

Nothing here owns the caller's memory: to IREE an imported buffer is only an address.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...graph_api.errors import DeviceError
from ..signature import ArgSpec
from . import dlpack
from .arrays import ALIGNMENT, aligned_bytes, gapped, occupied, pack, stored, unpack, view
from .caller_memory import CallerMemory, same_layout
from .device import Device, reason
from .elements import element_type, is_packed
from .iree_native import iree

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "Stage",
    "Step",
    "adopt",
    "allocate",
    "as_view",
    "copies",
    "end_of_queue",
    "importer",
    "putter",
    "transfer",
    "viewer",
]

Step = Callable[[], Any]


def importer(device: Device, nbytes: int) -> Callable[[int], Any]:
    """Return what makes a HAL buffer over memory at an address, without a copy and unchecked.

    The device must be able to address the memory, and on the host it must be aligned: IREE does
    not check that, and the code uses aligned vector instructions.  What is returned raises IREE's
    own error if IREE does not accept the memory.
    """
    return _host_importer(device, nbytes) if device.on_host else _device_importer(device, nbytes)


def _host_importer(device: Device, nbytes: int) -> Callable[[int], Any]:
    """Return what makes a HAL buffer over host memory, with all access rights.

    A buffer imported through DLPack may only be read and written (W-043).  The compiler turns
    constant and passed-through results into fills and copies of whole buffers, which also need
    the right to discard.
    """
    memory_type, buffer_usage = iree().MemoryType, iree().BufferUsage
    kind = memory_type.DEVICE_LOCAL | memory_type.HOST_VISIBLE
    usage = buffer_usage.DEFAULT | buffer_usage.MAPPING
    take, memory = device.hal.allocator.import_host_allocation, ctypes.c_char * nbytes
    return lambda address: take(memory.from_address(address), kind, usage)


def _device_importer(device: Device, nbytes: int) -> Callable[[int], Any]:
    own = device.memory[0], device.device_id
    return lambda address: dlpack.wrap(device.hal, address, nbytes, own)


def adopt(device: Device, address: int, nbytes: int) -> Any:
    """Return a HAL buffer over memory that the device can address, without a copy.

    Raises
    ------
    DeviceError
        If IREE does not accept the memory.
    """
    try:
        if device.on_host and address % ALIGNMENT:
            raise ValueError(f"the address is not a multiple of {ALIGNMENT}")
        return importer(device, nbytes)(address)
    except Exception as error:
        raise DeviceError(
            f"{device.driver} does not take {nbytes} bytes at {address:#x}: {reason(error)}"
        ) from error


def viewer(device: Device, spec: ArgSpec) -> Callable[[int], Any]:
    """Return what makes the buffer view of an argument over memory at an address; see `importer`.

    Types below 8 bits are flat raw bytes.
    """
    take, (shape, kind) = importer(device, spec.nbytes), _shape(spec)
    make = iree().HalBufferView
    return lambda address: make(take(address), shape, kind)


def as_view(buffer: Any, spec: ArgSpec) -> Any:
    """Return the HAL buffer view that the compiled function expects for an argument."""
    return iree().HalBufferView(buffer, *_shape(spec))


def _shape(spec: ArgSpec) -> tuple[list[int], Any]:
    kind = element_type(spec.data_type)
    if kind is None:
        return [spec.nbytes], iree().HalElementType.UINT_8
    return list(spec.shape), kind


def allocate(device: Device, nbytes: int, *, staging: bool = False) -> Any:
    """Return a new HAL buffer; with ``staging``, host memory that the device can copy.

    Raises
    ------
    DeviceError
        If there is not enough memory.
    """
    memory_type, buffer_usage = iree().MemoryType, iree().BufferUsage
    usage = buffer_usage.DEFAULT
    if staging:
        kind = memory_type.HOST_LOCAL | memory_type.DEVICE_VISIBLE
        usage = buffer_usage.TRANSFER | buffer_usage.MAPPING
    elif device.on_host:
        kind = memory_type.DEVICE_LOCAL | memory_type.HOST_VISIBLE
    else:
        kind = memory_type.DEVICE_LOCAL
    try:
        return device.hal.allocator.allocate_buffer(kind, usage, nbytes)
    except Exception as error:
        raise DeviceError(
            f"no {nbytes} bytes of memory on {device.driver} device {device.device_id}: "
            f"{reason(error)}"
        ) from error


class Stage:
    """Memory used in place of the caller's, with the copies before and after each execution.

    Parameters
    ----------
    device : Device
    spec : ArgSpec
    given : CallerMemory
        The caller's buffer, checked.
    own : ndarray of uint8, shape (spec.nbytes,), optional
        On the host: the memory to use, aligned.  It is allocated otherwise.

    Attributes
    ----------
    buffer : object
        HAL buffer that the compiled function uses.
    before, after : list of callable
        Copies before and after the execution, in order.
    """

    __slots__ = ("after", "before", "buffer", "memory")

    def __init__(
        self,
        device: Device,
        spec: ArgSpec,
        given: CallerMemory,
        own: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        import numpy as np

        nbytes = spec.nbytes
        self.before: list[Step] = []
        self.after: list[Step] = []
        transfers: tuple[Step, Step] | None = None
        if device.on_host:
            self.memory = aligned_bytes(nbytes) if own is None else own
            self.buffer = adopt(device, self.memory.ctypes.data, nbytes)
        else:
            self.buffer = allocate(device, nbytes)
            host = allocate(device, nbytes, staging=True)
            self.memory = host.map().asarray((nbytes,), np.dtype(np.uint8))
            transfers = (
                partial(transfer, device, host, self.buffer),
                partial(transfer, device, self.buffer, host),
            )
        copy = copies(spec, given, self.memory)
        if spec.output:
            self.after += [transfers[1], copy[1]] if transfers else [copy[1]]
        else:
            self.before += [copy[0], transfers[0]] if transfers else [copy[0]]


def copies(spec: ArgSpec, given: CallerMemory, memory: npt.NDArray[np.uint8]) -> tuple[Step, Step]:
    """Return the copy from a caller's buffer to our own bytes, and the copy back.

    Parameters
    ----------
    spec : ArgSpec
        How the bytes are laid out.
    given : CallerMemory
        The caller's buffer, checked.  Its layout may differ; packed types may be unpacked.
    memory : ndarray of uint8, shape (spec.nbytes,)
        The bytes; those that belong to no element are set here, once.
    """
    import numpy as np

    if same_layout(spec, given):
        here, put = memory.ctypes.data, putter(spec)
        return (
            partial(ctypes.memmove, here, given.address, spec.nbytes),
            partial(put, given.address, here),
        )
    theirs = given.array(spec)
    if is_packed(spec.data_type):
        memory[:] = _UNWRITTEN
        return partial(_pack, spec, theirs, memory), partial(_unpack, spec, memory, theirs)
    if gapped(spec):
        memory[:] = 0
    mine, theirs = stored(view(memory, spec), spec), stored(theirs, spec)
    return partial(np.copyto, mine, theirs), partial(np.copyto, theirs, mine)


def putter(spec: ArgSpec) -> Callable[[int, int], Any]:
    """Return what copies an output from one address to another; what lies between stays."""
    nbytes = spec.nbytes
    if not gapped(spec):
        return lambda there, here: ctypes.memmove(there, here, nbytes)
    memory = ctypes.c_char * nbytes

    def put(there: int, here: int) -> None:
        target, source = (occupied(memory.from_address(at), spec) for at in (there, here))
        target[...] = source

    return put


# In memory that was never written, every packed element has the code 5 (0x15 in 6 bits).
_UNWRITTEN = 0x55


def _pack(spec: ArgSpec, values: npt.NDArray[Any], memory: npt.NDArray[Any]) -> None:
    memory[:] = pack(spec, values)


def _unpack(spec: ArgSpec, memory: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
    values[...] = unpack(spec, memory)


def end_of_queue(device: Device) -> tuple[Any, int]:
    """Return a semaphore and its value once all work that is enqueued now is done."""
    done = device.hal.create_semaphore(0)
    # A copy of a few bytes, as queue_execute took no list from Python (W-042).
    source, target = (allocate(device, ALIGNMENT) for _ in range(2))
    device.hal.queue_copy(source, target, [], [(done, 1)])
    return done, 1


def transfer(device: Device, source: Any, target: Any) -> None:
    """Copy a whole buffer and wait until it is done.

    Raises
    ------
    DeviceError
        If the device fails, or has failed before.
    """
    try:
        done = device.hal.create_semaphore(0)
        device.hal.queue_copy(source, target, [], [(done, 1)])
        done.wait(1)
    except Exception as error:
        raise DeviceError(f"{device!r} failed: {reason(error)}") from error
