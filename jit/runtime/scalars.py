# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scalars that the host reads at each execution: arguments by value, never device memory.

A caller gives a number, or host memory that holds one (an array of one element, a tensor with
``__dlpack__``, a `Pointer`), which is read at each call.  The compiled function takes it as a
64-bit number of IREE's virtual machine.  So nothing is uploaded to a GPU, and work that is still
queued there cannot see a later value.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

from ...graph_api.dtypes import DataType
from ...graph_api.errors import Problem
from ...graph_api.values import plain_number, stored
from ..signature import ArgSpec
from .caller_memory import HOST, BufferLike, CallerMemory, broken, describe
from .elements import numpy_dtype
from .iree_native import iree

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["ArgumentList", "Reader", "built", "describe_scalar", "one_element"]

Reader = Callable[[], bytes]
"""Returns the scalar as bytes of its tensor's type."""


def describe_scalar(
    buffer: BufferLike, spec: ArgSpec, port: str
) -> tuple[Reader, object] | list[Problem]:
    """Return the reader of a scalar and the owner of its memory, or all problems.

    Parameters
    ----------
    buffer : BufferLike or number
        A bool, int, float or NumPy scalar is the value itself (a plain int is not an address
        here).  Anything else is memory that holds one element of the tensor's type.
    spec : ArgSpec
        The argument.
    port : str
        The tensor's name, for the text.
    """
    import numpy as np

    kind = spec.data_type
    number = None
    if not isinstance(buffer, np.ndarray) and not hasattr(buffer, "__dlpack__"):
        number = plain_number(buffer)
        if number is None and isinstance(buffer, np.generic):  # a scalar of ml_dtypes
            number = float(buffer)
    if number is not None:
        held = stored(number, kind)
        if held is None:
            wanted = f"a number that {kind.json} can hold"
            return [broken("BIND-14", port, repr(buffer), wanted)]
        raw = np.asarray(held, np.float64 if kind.is_float else None)
        return partial(bytes, raw.astype(numpy_dtype(kind)).tobytes()), None
    found = describe(buffer, port)
    if isinstance(found, Problem):
        return [replace(found, wanted=f"a number, or {found.wanted}")]
    given, owner = found
    problems = list(_misfits(given, spec, port))
    if problems:
        return problems
    return partial(ctypes.string_at, given.address, spec.nbytes), owner


def _misfits(given: CallerMemory, spec: ArgSpec, port: str) -> Iterator[Problem]:
    """Yield the rules that memory breaks as a scalar."""
    if given.address <= 0:
        yield broken("BIND-08", port, f"address {given.address:#x}", "an address of real memory")
        return
    if given.device is not None and given.device != HOST:
        kind, number = given.device
        got = f"memory of DLPack device {kind}:{number}"
        hint = "the host reads a scalar; copy it there first"
        yield broken("BIND-12", port, got, "a number, or host memory", hint)
    if given.dims is None:
        if given.nbytes is not None and given.nbytes < spec.nbytes:
            yield broken("BIND-09", port, f"{given.nbytes} bytes", f"{spec.nbytes} bytes")
        return
    if given.type is not spec.data_type:
        got = given.type.json if isinstance(given.type, DataType) else str(given.type)
        yield broken("BIND-04", port, got, spec.data_type.json, "a plain number is converted")
    if prod(given.dims) != 1:
        yield broken("BIND-05", port, f"shape {given.dims}", "a number, or one element")


class ArgumentList:
    """The arguments of a call; made again if a scalar has changed, as a VM list has no setter.

    Parameters
    ----------
    refs : sequence
        The buffers and views in order; None in the place of a scalar.
    kinds : sequence of DataType
        Types of the scalars, in order.

    Notes
    -----
    Scalars are compared bitwise: -0.0 differs from 0.0, and NaN equals itself.
    """

    __slots__ = ("_built", "_kinds", "_refs", "_values")

    def __init__(self, refs: Sequence[object], kinds: Sequence[DataType]) -> None:
        self._refs = tuple(refs)
        self._kinds = tuple(kinds)
        self._values: tuple[bytes, ...] | None = None
        self._built: Any = None

    def at(self, values: tuple[bytes, ...]) -> Any:
        """Return the ``VmVariantList`` for these scalars; not thread-safe."""
        if values != self._values:
            self._built = built(self._refs, self._kinds, values)
            self._values = values
        return self._built


def built(refs: Sequence[object], kinds: Sequence[DataType], values: tuple[bytes, ...]) -> Any:
    """Return a new ``VmVariantList`` of references and scalars; see `ArgumentList`."""
    made = _list_type()(len(refs))
    if not kinds:
        for ref in refs:
            made.push_ref(ref)
        return made
    numbers = zip(kinds, values, strict=True)
    for ref in refs:
        if ref is not None:
            made.push_ref(ref)
            continue
        kind, raw = next(numbers)
        (value,) = one_element(raw, kind)
        if kind.is_float:
            made.push_float(float(value))
        else:
            made.push_int(int(value))
    return made


@cache
def _list_type() -> Any:
    """Return IREE's type of lists; importing it each time costs as much as filling a list."""
    return iree().VmVariantList


def one_element(raw: bytes, kind: DataType) -> npt.NDArray[Any]:
    """Return the bytes of a scalar as an array of one element (``uint8`` for BOOLEAN)."""
    import numpy as np

    return np.frombuffer(raw, np.uint8 if kind.is_bool else numpy_dtype(kind), count=1)
