# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory that is larger than a caller's tensor, with the copies to and from it.

The padding is filled with copies of the caller's own entries.  These are valid for all users of
the tensor (as divisors, as indices); uninitialised memory would not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..signature import ArgSpec
from . import dlpack
from .arrays import empty
from .caller_memory import CallerMemory, Pointer
from .device import Device
from .device_memory import Step, adopt, allocate, transfer
from .iree_native import iree

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["DevicePadded", "HostPadded", "outermost"]


def outermost(order: Sequence[int], dims: Sequence[int], axis: int) -> bool:
    """Whether every dim outside of ``axis`` in memory has extent 1."""
    return all(dims[a] == 1 for a in order[: order.index(axis)])


class HostPadded:
    """A host array used in place of a smaller one.

    Attributes
    ----------
    given : array
        The array that the code is bound to, with the dims and strides of ``spec``.
    """

    __slots__ = ("given",)

    def __init__(self, spec: ArgSpec) -> None:
        self.given = empty(spec)

    def steps(self, spec: ArgSpec, given: CallerMemory) -> list[Step]:
        """Return the copies for a caller's memory with the smaller dims of ``spec``."""
        theirs = given.array(spec)
        mine = self.given[tuple(slice(0, extent) for extent in spec.dims)]
        if spec.output:
            return [partial(_copy, theirs, mine)]
        return [partial(_copy, mine, theirs), partial(_repeat, self.given, spec.dims)]


def _copy(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    target[...] = source


def _repeat(array: npt.NDArray[Any], dims: Sequence[int]) -> None:
    """Fill the entries beyond ``dims`` with the last entry of each dim."""
    for axis, extent in enumerate(dims):
        if extent < array.shape[axis]:
            # Dims before this one are filled already, those after it are not.
            around = (slice(None),) * axis
            behind = tuple(slice(0, n) for n in dims[axis + 1 :])
            last = array[(*around, slice(extent - 1, extent), *behind)]
            array[(*around, slice(extent, None), *behind)] = last


class DevicePadded:
    """Device memory used in place of a smaller tensor whose padded dim is the outermost.

    Attributes
    ----------
    given : Pointer
        The memory that the code is bound to.
    """

    __slots__ = ("_device", "_keep", "given")

    def __init__(self, device: Device, spec: ArgSpec) -> None:
        buffer = allocate(device, spec.nbytes)
        whole = iree().HalBufferView(buffer, [spec.nbytes], iree().HalElementType.UINT_8)
        kind = device.memory[0]
        capsule = device.hal.create_dlpack_capsule(whole, kind, device.device_id)
        about, held = dlpack.read(_Exporter(capsule))
        self._device, self._keep = device, (buffer, held)
        self.given = Pointer(about.address, spec.nbytes)

    def steps(self, spec: ArgSpec, given: CallerMemory) -> list[Step]:
        """Return the copies for a caller's memory with the smaller dims of ``spec``."""
        nbytes, begin = spec.nbytes, self.given.address
        if spec.output:
            return [self._copy(begin, given.address, nbytes)]
        found = []
        for done in range(0, self.given.nbytes or 0, nbytes):
            size = min(nbytes, (self.given.nbytes or 0) - done)
            found.append(self._copy(given.address, begin + done, size))
        return found

    def _copy(self, source: int, target: int, nbytes: int) -> Step:
        device = self._device
        ends = [adopt(device, address, nbytes) for address in (source, target)]
        return partial(transfer, device.hal, *ends)


class _Exporter:
    """An object that exports a given capsule."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: object) -> object:
        return self._capsule
