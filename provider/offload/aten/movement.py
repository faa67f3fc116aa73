# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Aten ops that only move elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ....graph_api.tensor import Tensor
from .call import AtenOp, Built, Call, Family, Several

__all__ = ["OPS"]


def _reshaped(c: Call) -> Tensor:
    """Return the elements with the result's dims, which the operands were checked to give."""
    dims = c.result().graph_dims
    if prod(dims) != prod(c.type("self").graph_dims):
        raise c.refuse("self", list(c.type("self").dims), f"{prod(dims)} elements")
    return c.graph.reshape(c.tensor("self"), dim=dims)


def _view(c: Call) -> Tensor:
    given = c.constant(c.names[1])
    if isinstance(given, tuple):
        wanted = c.result().dims
        fixed = zip(given, wanted, strict=True) if len(given) == len(wanted) else [(0, 1)]
        if any(n not in (have, -1) for n, have in fixed):
            raise c.refuse(c.names[1], list(given), f"the result's dims {list(wanted)}")
    return _reshaped(c)


def _flatten(c: Call) -> Tensor:
    return _joined(c, "start_dim", "end_dim")


def _collapse(c: Call) -> Tensor:
    return _joined(c, "start", "end")


def _joined(c: Call, first: str, last: str) -> Tensor:
    """Make one dim of several."""
    dims = c.type("self").dims
    rank = len(dims)
    start, end = c.axis(first, rank), c.axis(last, rank)
    _must_give(c, (*dims[:start], prod(dims[start : end + 1]), *dims[end + 1 :]))
    return _reshaped(c)


def _unflatten(c: Call) -> Tensor:
    dims = c.type("self").dims
    at, sizes = c.axis("dim", len(dims)), list(c.integers("sizes"))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = dims[at] // -prod(sizes)
    _must_give(c, (*dims[:at], *sizes, *dims[at + 1 :]))
    return _reshaped(c)


def _squeeze(c: Call) -> Tensor:
    dims = c.type("self").dims
    axes = range(len(dims)) if not c.takes("dim") else c.axes("dim", len(dims))
    _must_give(c, tuple(n for i, n in enumerate(dims) if i not in axes or n != 1))
    return _reshaped(c)


def _unsqueeze(c: Call) -> Tensor:
    dims = c.type("self").dims
    at = c.axis("dim", len(dims) + 1)
    _must_give(c, (*dims[:at], 1, *dims[at:]))
    return _reshaped(c)


def _must_give(c: Call, dims: Sequence[int]) -> None:
    if tuple(dims) != c.result().dims:
        got = f"a result of {list(c.result().dims)}"
        raise c.refuse("result", got, f"a result of {list(dims)}")


def _turned(c: Call, order: Sequence[int]) -> Tensor:
    dims = c.type("self").dims
    _must_give(c, tuple(dims[i] for i in order))
    return (
        c.graph.transpose(c.tensor("self"), permutation=tuple(order)) if dims else c.tensor("self")
    )


def _permute(c: Call) -> Tensor:
    rank = len(c.type("self").dims)
    order = [n % max(rank, 1) for n in c.integers("dims")]
    if sorted(order) != list(range(rank)):
        raise c.refuse("dims", order, f"each of 0 to {rank - 1} once")
    return _turned(c, order)


def _transpose(c: Call) -> Tensor:
    rank = len(c.type("self").dims)
    order = list(range(rank))
    if rank:
        i, j = c.axis("dim0", rank), c.axis("dim1", rank)
        order[i], order[j] = order[j], order[i]
    return _turned(c, order)


def _reversed(c: Call) -> Tensor:
    return _turned(c, range(len(c.type("self").dims))[::-1])


def _expand(c: Call) -> Tensor:
    """Repeat extents of 1; an addition of nothing broadcasts, and is fused."""
    dims, wanted = c.type("self").dims, c.result().dims
    if c.takes("size"):
        sizes = c.integers("size")
        lead = len(sizes) - len(dims)
        _must_give(
            c, tuple(dims[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(sizes))
        )
    aligned = (1,) * (len(wanted) - len(dims)) + dims
    if any(n not in (1, w) for n, w in zip(aligned, wanted, strict=True)):
        raise c.refuse("self", list(dims), f"dims that broadcast to {list(wanted)}")
    x = c.shaped(c.tensor("self"), aligned or (1,))
    if not wanted or aligned == wanted:
        return x
    extents = "\n".join(f"%n{i} = torch.constant.int {n}" for i, n in enumerate(wanted))
    (y,) = c.graph.custom_op(
        mlir=_EXPAND.replace("EXTENTS", extents)
        .replace("NAMES", ", ".join(f"%n{i}" for i in range(len(wanted))))
        .replace("TYPES", ", ".join(["!torch.int"] * len(wanted))),
        inputs=[x],
        outputs=[(wanted, c.result().data_type)],
        reference=partial(_broadcast, dims=wanted),
    )
    return y


# hipDNN has no op that repeats elements.
_EXPAND = """func.func @{FUNC_NAME}(%x: {IN0_TYPE}) -> {OUT0_TYPE} {
  EXTENTS
  %dims = torch.prim.ListConstruct NAMES : (TYPES) -> !torch.list<int>
  %false = torch.constant.bool false
  %y = torch.aten.expand %x, %dims, %false :
    {IN0_TYPE}, !torch.list<int>, !torch.bool -> {OUT0_TYPE}
  return %y : {OUT0_TYPE}
}"""


def _broadcast(x: Any, dims: tuple[int, ...]) -> Any:
    return np.broadcast_to(x, dims)


def _slice(c: Call) -> Tensor:
    dims = c.type("self").dims
    at, step = c.axis("dim", len(dims)), c.integer("step")
    start = _position(c, "start", dims[at], 0)
    end = _position(c, "end", dims[at], dims[at])
    if step < 1 or end <= start:
        raise c.refuse("step", f"{start}:{end}:{step}", "a step of at least 1, and elements left")
    return _part(c, at, start, end, step)


def _position(c: Call, name: str, extent: int, default: int) -> int:
    if not c.has(name):
        return default
    found = c.integer(name)
    return max(0, found + extent) if found < 0 else min(found, extent)


def _part(c: Call, at: int, start: int, end: int, step: int = 1) -> Tensor:
    dims = c.type("self").dims
    return c.graph.slice(
        c.tensor("self"),
        starts=tuple(start if i == at else 0 for i in range(len(dims))),
        limits=tuple(end if i == at else n for i, n in enumerate(dims)),
        strides=tuple(step if i == at else 1 for i in range(len(dims))),
    )


def _split(c: Call) -> Several:
    extent, at = _along(c)
    size = c.integer("split_size")
    if size < 1:
        raise c.refuse("split_size", size, "at least 1")
    return _parts(c, at, [min(size, extent - start) for start in range(0, extent, size)])


def _chunk(c: Call) -> Several:
    extent, at = _along(c)
    count = c.integer("chunks")
    if count < 1:
        raise c.refuse("chunks", count, "at least 1")
    size = -(-extent // count)
    return _parts(c, at, [min(size, extent - start) for start in range(0, extent, size)])


def _split_by_sizes(c: Call) -> Several:
    extent, at = _along(c)
    sizes = c.integers("split_sizes")
    if sum(sizes) != extent or any(n < 1 for n in sizes):
        raise c.refuse("split_sizes", list(sizes), f"positive numbers that add up to {extent}")
    return _parts(c, at, sizes)


def _unbind(c: Call) -> Several:
    extent, at = _along(c)
    dims = c.type("self").dims
    rest = (*dims[:at], *dims[at + 1 :]) or (1,)
    return Several(tuple(c.shaped(_part(c, at, i, i + 1), rest) for i in range(extent)))


def _along(c: Call) -> tuple[int, int]:
    dims = c.type("self").dims
    at = c.axis("dim", len(dims))
    return (dims or (1,))[at], at


def _parts(c: Call, at: int, sizes: Sequence[int]) -> Several:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    pairs = zip(starts, sizes, strict=True)
    return Several(tuple(_part(c, at, start, start + size) for start, size in pairs))


def _unpacked(c: Call) -> Built:
    found = c.several("operand")
    if len(found) != len(c.op.results):
        raise c.refuse("operand", f"{len(found)} tensors", f"{len(c.op.results)}")
    return found


def _entry(c: Call) -> Tensor:
    found, place = c.several("list"), c.integer("idx")
    if not -len(found) <= place < len(found):
        raise c.refuse("idx", place, f"a position of {len(found)}")
    return found[place]


def _select(c: Call) -> Tensor:
    dims = c.type("self").dims
    at, place = c.axis("dim", len(dims)), c.integer("index")
    if not -dims[at] <= place < dims[at]:
        raise c.refuse("index", place, f"a position of {dims[at]}")
    place %= dims[at]
    _must_give(c, (*dims[:at], *dims[at + 1 :]))
    return c.shaped(_part(c, at, place, place + 1), c.result().graph_dims)


def _narrow(c: Call) -> Tensor:
    dims = c.type("self").dims
    at, start, length = c.axis("dim", len(dims)), c.integer("start"), c.integer("length")
    start += dims[at] if start < 0 else 0
    if not 0 <= start < start + length <= dims[at]:
        raise c.refuse("length", length, f"1 to {dims[at] - start}")
    return _part(c, at, start, start + length)


def _cat(c: Call) -> Tensor:
    kinds = c.types("tensors")
    at, wanted = c.axis("dim", len(c.result().dims)), c.result().data_type
    parts = [
        part if kind.data_type is wanted else c.graph.cast(part, wanted)
        for part, kind in zip(c.tensors("tensors"), kinds, strict=True)
    ]
    return c.graph.concatenate(parts, axis=at)


def _stack(c: Call) -> Tensor:
    dims = c.types("tensors")[0].dims
    at = c.axis("dim", len(dims) + 1)
    _must_give(c, (*dims[:at], len(c.tensors("tensors")), *dims[at:]))
    parts = [c.shaped(part, (*dims[:at], 1, *dims[at:])) for part in c.tensors("tensors")]
    return c.graph.concatenate(parts, axis=at)


def _pad(c: Call) -> Tensor:
    if c.takes("mode"):
        c.must_be("mode", "constant")
    given, rank = c.integers("pad"), len(c.type("self").dims)
    if len(given) % 2 or len(given) > 2 * rank:
        raise c.refuse("pad", list(given), f"up to {rank} pairs")
    # Pairs begin with the last dim.
    pairs = [*zip(given[::2], given[1::2], strict=True)][::-1]
    pairs = [(0, 0)] * (rank - len(pairs)) + pairs
    return c.graph.pad(
        c.tensor("self"),
        pre_padding=tuple(pre for pre, _ in pairs),
        post_padding=tuple(post for _, post in pairs),
        value=float(c.number("value")) if c.has("value") else 0.0,
    )


def _row(operands: str, build: Callable[[Call], Built]) -> AtenOp:
    return AtenOp(tuple(operands.split()), build, Family.MOVEMENT)


OPS: dict[str, AtenOp] = {
    "aten.view": _row("self size", _view),
    "aten._unsafe_view": _row("self size", _view),
    "aten.reshape": _row("self shape", _view),
    "aten.flatten.using_ints": _row("self start_dim end_dim", _flatten),
    "prims.collapse": _row("self start end", _collapse),
    "aten.unflatten.int": _row("self dim sizes", _unflatten),
    "aten.squeeze": _row("self", _squeeze),
    "aten.squeeze.dim": _row("self dim", _squeeze),
    "aten.unsqueeze": _row("self dim", _unsqueeze),
    "aten.permute": _row("self dims", _permute),
    "aten.transpose.int": _row("self dim0 dim1", _transpose),
    "aten.t": _row("self", _reversed),
    "aten.numpy_T": _row("self", _reversed),
    "aten.expand": _row("self size implicit", _expand),
    "aten.broadcast_to": _row("self size", _expand),
    "aten.expand_as": _row("self other", _expand),
    "aten.slice.Tensor": _row("self dim start end step", _slice),
    "aten.select.int": _row("self dim index", _select),
    "aten.narrow": _row("self dim start length", _narrow),
    "aten.split.Tensor": _row("self split_size dim", _split),
    "aten.split_with_sizes": _row("self split_sizes dim", _split_by_sizes),
    "aten.chunk": _row("self chunks dim", _chunk),
    "aten.unbind.int": _row("self dim", _unbind),
    "prim.ListUnpack": _row("operand", _unpacked),
    "aten.__getitem__.t": _row("list idx", _entry),
    "aten.cat": _row("tensors dim", _cat),
    "aten.stack": _row("tensors dim", _stack),
    "aten.pad": _row("self pad mode value", _pad),
    "aten.constant_pad_nd": _row("self pad value", _pad),
}
