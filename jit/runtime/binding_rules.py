# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rules for buffers, checked on their descriptions before anything is executed.

All broken rules of a buffer set are reported at once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from ...graph_api.dtypes import DataType
from ...graph_api.errors import BindError, Problem
from ..signature import ArgSpec
from .arrays import ALIGNMENT
from .caller_memory import HOST, CallerMemory, broken, same_layout
from .device import Device
from .dlpack import row_major
from .elements import is_packed
from .interleaved import Places, apart

__all__ = [
    "RULES",
    "Range",
    "judge",
    "judge_workspace",
    "missing",
    "overlaps",
    "refusal",
    "unknown",
]

RULES = {
    "BIND-01": "every tensor of the graph's signature has a buffer",
    "BIND-02": "every buffer belongs to a tensor of the signature",
    "BIND-03": "a buffer is a NumPy array, exports DLPack, or is an address",
    "BIND-04": "the element type is the tensor's",
    "BIND-05": "the shape is the tensor's dims",
    "BIND-06": "the strides are the tensor's (unless copy=True)",
    "BIND-07": "an output can be written",
    "BIND-08": "an address is not null",
    "BIND-09": "a buffer is large enough",
    "BIND-10": "an output shares no byte with another buffer, "
    "except that of an input of `plan.in_place`, from its first byte to its last",
    "BIND-11": "a workspace is contiguous and large enough",
    "BIND-12": "the memory is the device's",
    "BIND-13": "device memory starts at a multiple of 64 bytes",
    "BIND-14": "a number given for a scalar is one that its type can hold",
}
"""Rule id -> what must hold."""


def refusal(problems: Sequence[Problem]) -> BindError:
    """Return the error for a buffer set that breaks rules."""
    many = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return BindError(f"{many} with the buffers; nothing was executed", problems)


def missing(spec: ArgSpec, uid: int, port: str) -> Problem:
    """Return the problem of an argument without a buffer (BIND-01)."""
    return broken(
        "BIND-01", port, "none", f"{'a number' if spec.scalar else 'a buffer'} for uid {uid}"
    )


def unknown(uids: Iterable[object], hint: str = "") -> list[Problem]:
    """Return the problems of buffers without an argument (BIND-02)."""
    wanted = "the uid of an input or output"
    return [
        broken("BIND-02", f"uid {uid}", "a buffer", wanted, hint) for uid in sorted(uids, key=str)
    ]


def judge(
    spec: ArgSpec, given: CallerMemory, port: str, device: Device, copy: bool
) -> Iterator[Problem]:
    """Yield every rule that a buffer breaks as an argument.

    Parameters
    ----------
    spec : ArgSpec
        The argument.
    given : CallerMemory
        The buffer.
    port : str
        The tensor's name, for the text.
    device : Device
        The device of the plan.
    copy : bool
        Whether a buffer in other strides may be copied.
    """
    if spec.output:
        yield from _judge_writable(given, port, "np.empty or .copy()")
    if given.address <= 0:
        if given.dims is None or 0 not in given.dims:
            yield _null_address(given, port)
    elif not device.on_host and given.address % ALIGNMENT and given.device != HOST:
        got = f"address {given.address:#x}, {given.address % ALIGNMENT} past a multiple"
        hint = "allocate the tensor by itself rather than slice it out of another"
        yield broken("BIND-13", port, got, f"a multiple of {ALIGNMENT}", hint)
    if not (copy and given.device == HOST):
        yield from _judge_device(given, port, device)
    if given.dims is None:
        if given.nbytes is not None and given.nbytes < spec.nbytes:
            wanted = f"at least {spec.nbytes} bytes"
            yield broken("BIND-09", port, f"{given.nbytes} bytes", wanted)
        return
    packed = is_packed(spec.data_type)
    if packed and given.type is not spec.data_type:
        yield from _judge_packed(spec, given, port)
        return
    if given.type is not spec.data_type:
        names = _name(given.type), _name(spec.data_type)
        yield broken("BIND-04", port, *names, _cast_hint(spec, given))
    if not _same_shape(spec, given.dims):
        hint = _shape_hint(spec, given)
        yield broken("BIND-05", port, f"shape {given.dims}", f"shape {spec.dims}", hint)
    elif not same_layout(spec, given) and not (
        (copy or packed) and _copies(spec, given, device)  # values are packed by a copy anyway
    ):
        got = f"strides {given.strides}{' bytes' if given.uneven else ''}"
        hint = _stride_hint(spec, given, device)
        yield broken("BIND-06", port, got, f"strides {spec.strides}", hint)


def judge_workspace(given: CallerMemory, nbytes: int, device: Device) -> Iterator[Problem]:
    """Yield every rule that memory breaks as a workspace."""
    port, size = "workspace", given.size
    if given.address <= 0:
        yield _null_address(given, port)
    yield from _judge_writable(given, port)
    if not given.contiguous:
        yield broken("BIND-11", port, f"strides {given.strides}", "contiguous bytes")
    elif size is not None and size < nbytes:
        wanted, hint = f"at least {nbytes} bytes", "ask workspace_bytes how much"
        yield broken("BIND-11", port, f"{size} bytes", wanted, hint)
    yield from _judge_device(given, port, device)


def _null_address(given: CallerMemory, port: str) -> Problem:
    """Return the problem of a null or negative address (BIND-08)."""
    return broken("BIND-08", port, f"address {given.address:#x}", "an address of real memory")


def _judge_writable(given: CallerMemory, port: str, hint: str = "") -> Iterator[Problem]:
    if given.read_only:
        yield broken("BIND-07", port, "read-only memory", "memory that can be written", hint)


def _judge_device(given: CallerMemory, port: str, device: Device) -> Iterator[Problem]:
    """Yield the problem of memory on another device; raw addresses are trusted."""
    if given.device is None:
        return
    kind, number = given.device
    # Host, pinned and managed memory does not belong to one device.
    elsewhere = kind == device.memory[0] and not device.on_host and number != device.device_id
    if kind not in device.memory or elsewhere:
        got = f"memory of DLPack device {kind}:{number}"
        wanted = f"memory of {device!r}, DLPack device {device.memory[0]}:{device.device_id}"
        hint = "move the tensor to the plan's device first"
        more = ", or bind with copy=True" if given.device == HOST else ""
        yield broken("BIND-12", port, got, wanted, hint + more)


def _judge_packed(spec: ArgSpec, given: CallerMemory, port: str) -> Iterator[Problem]:
    per_byte = f"{spec.data_type.bits}-bit values are packed, low bits first; see arrays.pack"
    if given.type not in (DataType.UINT8, DataType.INT8):
        wanted = f"{_name(spec.data_type)} values or uint8 (packed bytes)"
        yield broken("BIND-04", port, _name(given.type), wanted, per_byte)
    if given.dims != (spec.nbytes,):
        yield broken("BIND-05", port, f"shape {given.dims}", f"shape ({spec.nbytes},)", per_byte)
    elif not given.contiguous:
        hint = "np.ascontiguousarray(...)"
        yield broken("BIND-06", port, f"strides {given.strides}", "strides (1,)", hint)


def _same_shape(spec: ArgSpec, dims: tuple[int, ...]) -> bool:
    if dims == spec.dims:
        return True
    return len(dims) == len(spec.dims) and all(
        have == wanted or (have == 1 and stride == 0)
        for have, wanted, stride in zip(dims, spec.dims, spec.strides, strict=True)
    )


def _copies(spec: ArgSpec, given: CallerMemory, device: Device) -> bool:
    """Whether other strides can be copied: the host can access the memory, no value is lost."""
    assert given.dims is not None
    assert given.strides is not None
    layout = zip(spec.strides, given.dims, given.strides, strict=True)
    # If the tensor is broadcast and the buffer is not, a copy would keep only one value.
    loses = any(wanted == 0 and have > 1 and stride != 0 for wanted, have, stride in layout)
    return not loses and (device.on_host or given.device == HOST)


def _name(kind: DataType | str | None) -> str:
    return kind.json if isinstance(kind, DataType) else str(kind)


def _cast_hint(spec: ArgSpec, given: CallerMemory) -> str:
    name, call = spec.data_type.value.numpy, "astype"
    if given.library == "torch":
        name, call = f"torch.{name}", "to"
    if given.type is DataType.UINT8 and spec.data_type.bits == 8:
        return f"if these bytes already are {name} values, give .view({name})"
    return f"convert with .{call}({name})"


def _stride_hint(spec: ArgSpec, given: CallerMemory, device: Device) -> str:
    torch = given.library == "torch"
    if spec.strides == row_major(spec.dims):
        hint = ".contiguous()" if torch else "np.ascontiguousarray(...)"
        hint = hint if torch or device.on_host else "make it contiguous"
    elif (order := _dense_order(spec)) is not None:
        there, back = order, tuple(order.index(axis) for axis in range(len(order)))
        hint = f"np.ascontiguousarray(x.transpose{there}).transpose{back} lays it out so"
        if torch:
            hint = f"x.permute{there}.contiguous().permute{back} lays it out so"
    else:
        hint = "give a part of a larger array that has these strides"
    copied = ", or give copy=True to run or bind"
    return f"{hint}{copied}" if _copies(spec, given, device) else hint


def _shape_hint(spec: ArgSpec, given: CallerMemory) -> str:
    """Return what to do with an array whose axes are in the order of the tensor's memory."""
    order = _dense_order(spec)
    if order is None or given.dims != tuple(spec.dims[axis] for axis in order):
        return ""
    back = tuple(order.index(axis) for axis in range(len(order)))
    call = "permute" if given.library == "torch" else "transpose"
    return f"dims are logical, strides say how they are laid out: give x.{call}{back}"


def _dense_order(spec: ArgSpec) -> tuple[int, ...] | None:
    """Return a tensor's axes, outermost in memory first; None where it has gaps or repeats."""
    order = tuple(sorted(range(len(spec.dims)), key=lambda axis: (-spec.strides[axis], axis)))
    dims = tuple(spec.dims[axis] for axis in order)
    dense = row_major(dims) == tuple(spec.strides[axis] for axis in order)
    return order if dense and order != tuple(range(len(order))) else None


class Range(NamedTuple):
    """The bytes of a buffer, from ``first`` to before ``end``; ``uid`` is that of an argument."""

    port: str
    written: bool
    first: int
    end: int
    uid: int | None = None
    places: Places | None = None


def overlaps(
    ranges: Iterable[Range], in_place: Container[tuple[int | None, int | None]] = ()
) -> Iterator[Problem]:
    """Yield a problem for each written range that shares a byte with another range.

    Parameters
    ----------
    ranges : iterable of Range
        Parts of one buffer may lie between one another (`interleaved.apart`).
    in_place : container of (uid, uid)
        Outputs and inputs that may have the same range.
    """
    hint = (
        "kernels read inputs while they write outputs; give another array (plan.in_place names "
        "what may be one)"
    )
    open_ranges: list[Range] = []
    for now in sorted(ranges, key=lambda r: r.first):
        open_ranges = [r for r in open_ranges if r.end > now.first]
        for other in open_ranges:
            if not (now.written or other.written) or _apart(now, other):
                continue
            at_fault, partner = (now, other) if now.written else (other, now)
            got = f"the memory of {partner.port}"
            if other[2:4] != now[2:4]:
                low, high = now.first, min(now.end, other.end)
                got = f"bytes {low:#x}..{high:#x} shared with {partner.port}"
            elif (at_fault.uid, partner.uid) in in_place:
                continue
            yield broken("BIND-10", at_fault.port, got, "memory of its own", hint)
        open_ranges.append(now)


def _apart(one: Range, other: Range) -> bool:
    if one.places is None or other.places is None:
        return False
    return apart(one.first, one.places, other.first, other.places)
