# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The description of memory that a caller gives for a tensor.

Accepted are

- NumPy arrays (with ml_dtypes types).  Dims are logical: ``array.shape`` equals the tensor's
  dims and the array's strides equal its strides, so an NHWC tensor is passed as
  ``x_nhwc.transpose(0, 3, 1, 2)``.  Where the tensor is broadcast (stride 0), extent 1 or a
  ``np.broadcast_to`` view is accepted.  Strides of dims with extent 1 do not matter.
- Objects with ``__dlpack__`` (tensors of torch, JAX, CuPy), by the same rule.
- `Pointer` or a plain int: an address.  Its layout and type are trusted.
- For 4- and 6-bit types a contiguous ``uint8`` array of the packed bytes (`arrays.pack`), or an
  array of values in ml_dtypes' type, which is packed and unpacked at each call.

`describe` makes the description, `binding_rules` checks it.
"""

from __future__ import annotations

import ctypes
import sys
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ...graph_api.dtypes import DataType
from ...graph_api.errors import Problem
from ..signature import ArgSpec
from . import dlpack
from .arrays import view
from .elements import data_type, from_dlpack, is_packed, value_dtype

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["HOST", "BufferLike", "CallerMemory", "Pointer", "broken", "describe", "same_layout"]

HOST = (1, 0)
"""DLPack's device type and id of ordinary CPU memory."""


class Pointer(NamedTuple):
    """A raw address; physical layout and element type are trusted.

    Attributes
    ----------
    address : int
        First byte.
    nbytes : int or None
        Size of the memory behind it, checked when given.
    """

    address: int
    nbytes: int | None = None


if TYPE_CHECKING:
    BufferLike = npt.NDArray[Any] | Pointer | int | Any  # Any: has __dlpack__
else:
    BufferLike = Any


class CallerMemory(NamedTuple):
    """A buffer as the caller gave it: hashable facts, which do not keep the memory alive.

    Attributes
    ----------
    address : int
        First element (for a pointer: first byte).
    nbytes : int or None
        Size of a pointer's memory; None if it is unknown, or given by the layout.
    type : DataType or str or None
        Element type; a name if it is no `DataType`; None is trusted.
    dims, strides : tuple of int or None
        Layout in elements (``strides`` in bytes if ``uneven``); None is trusted.
    itemsize : int
        Bytes of one element.
    read_only, uneven : bool
        Not writable; strides are not multiples of the element size.
    device : tuple of int or None
        DLPack device type and id; None is trusted.
    library : str
        Package of an object with ``__dlpack__``, in whose words hints are.
    """

    address: int
    nbytes: int | None = None
    type: DataType | str | None = None
    dims: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    itemsize: int = 1
    read_only: bool = False
    uneven: bool = False
    device: tuple[int, int] | None = None
    library: str = ""

    @property
    def size(self) -> int | None:
        """Size of the elements in bytes, or None for a pointer of unknown size."""
        return self.nbytes if self.dims is None else prod(self.dims) * self.itemsize

    def bounds(self, nbytes: int) -> tuple[int, int]:
        """Return the first and the end address; ``nbytes`` is the size of a pointer's memory."""
        if self.dims is None or self.strides is None:
            return self.address, self.address + nbytes
        unit = 1 if self.uneven else self.itemsize
        last = [(d - 1) * s * unit for d, s in zip(self.dims, self.strides, strict=True)]
        low = self.address + sum(offset for offset in last if offset < 0)
        return low, self.address + sum(offset for offset in last if offset > 0) + self.itemsize

    def array(self, spec: ArgSpec) -> npt.NDArray[Any]:
        """Return the memory as an array with its own dims and strides; nothing keeps it alive.

        Packed bytes, and memory whose layout is trusted, have the layout of ``spec``.
        """
        import numpy as np

        low, high = self.bounds(spec.nbytes)
        memory: Any = (ctypes.c_char * (high - low)).from_address(low)
        packed = is_packed(spec.data_type) and self.type is not spec.data_type
        if self.dims is None or self.strides is None or packed:
            return view(memory, spec)
        unit = 1 if self.uneven else self.itemsize
        strides = tuple(s * unit for s in self.strides)
        dtype = value_dtype(spec.data_type)
        return np.ndarray(self.dims, dtype, memory, self.address - low, strides)

    @property
    def contiguous(self) -> bool:
        """Whether the elements are dense, in row-major order."""
        if self.dims is None or self.strides is None:
            return True
        dense = 1
        for extent, stride in zip(reversed(self.dims), reversed(self.strides), strict=True):
            if extent != 1 and (self.uneven or stride != dense):
                return False
            dense *= extent
        return True


def broken(rule: str, port: str, got: object, wanted: object, hint: str = "") -> Problem:
    """Return the problem of a rule that the buffer of a tensor breaks."""
    return Problem(rule=rule, port=port, got=str(got), wanted=str(wanted), hint=hint)


def describe(buffer: BufferLike, port: str) -> tuple[CallerMemory, object] | Problem:
    """Return the description of a buffer and the owner of its memory, or the broken rule.

    Parameters
    ----------
    buffer : BufferLike
        What the caller gave.
    port : str
        The tensor's name, for the text.
    """
    if isinstance(buffer, Pointer) and isinstance(buffer.address, int):
        return CallerMemory(buffer.address, buffer.nbytes), None
    if isinstance(buffer, int) and not isinstance(buffer, bool):
        return CallerMemory(buffer), None
    import numpy as np

    if isinstance(buffer, np.ndarray):
        return _describe_array(buffer), buffer
    if hasattr(buffer, "__dlpack__"):
        return _describe_dlpack(buffer, port)
    kind = type(buffer)
    got = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(buffer, Pointer):
        got = f"a Pointer of a {type(buffer.address).__name__}"
    wanted = "a NumPy array, an object with __dlpack__, a Pointer or an int address"
    return broken("BIND-03", port, got, wanted, "np.asarray(...) makes an array")


def _describe_array(array: npt.NDArray[Any]) -> CallerMemory:
    address, read_only = array.__array_interface__["data"]
    dtype, strides = array.dtype, array.strides
    size = dtype.itemsize or 1  # void and empty strings have none
    uneven = any(s % size for s in strides)
    return CallerMemory(
        address,
        None,
        data_type(dtype) or str(dtype),
        array.shape,
        strides if uneven else tuple([s // size for s in strides]),
        size,
        read_only,
        uneven,
        HOST,
    )


def _describe_dlpack(exporter: Any, port: str) -> tuple[CallerMemory, object] | Problem:
    own_type = None
    try:
        try:
            about, capsule = dlpack.read(exporter)
        except Exception:
            plain, own_type = _as_bytes(exporter)
            if own_type is None:
                raise
            about, capsule = dlpack.read(plain)
    except Exception as error:  # of whatever type the other library raises
        got = f"a {type(exporter).__name__} that does not export: {error}"
        wanted = "an object whose __dlpack__ gives a capsule"
        hint = "a torch tensor that requires grad needs .detach()"
        return broken("BIND-03", port, got, wanted, hint)
    found = own_type or from_dlpack(about.code, about.bits, about.lanes)
    given = CallerMemory(
        address=about.address,
        type=found or f"DLPack type {about.code} of {about.bits} bits x {about.lanes}",
        dims=about.dims,
        strides=about.strides,
        itemsize=(about.bits * about.lanes + 7) // 8,
        read_only=about.read_only,
        device=about.device,
        library=type(exporter).__module__.partition(".")[0],
    )
    return given, (exporter, capsule)


def _as_bytes(exporter: Any) -> tuple[Any, DataType | None]:
    """Return a tensor of PyTorch's 8-bit floats, which some releases do not export, as bytes."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(exporter, torch.Tensor) or exporter.requires_grad:
        return exporter, None
    try:
        kind = DataType.parse(exporter.dtype)
    except ValueError:
        return exporter, None
    return (exporter.view(torch.uint8), kind) if kind.bits == 8 else (exporter, None)


def same_layout(spec: ArgSpec, given: CallerMemory) -> bool:
    """Whether the memory has the layout of the argument (strides of extent 1 do not matter)."""
    if given.dims is None or given.strides is None:
        return True
    if is_packed(spec.data_type):
        return given.type is not spec.data_type
    return not given.uneven and all(
        have == 1 or stride == wanted
        for have, stride, wanted in zip(given.dims, given.strides, spec.strides, strict=True)
    )
