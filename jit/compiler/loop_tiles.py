# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of kernels for CPUs that are elementwise or add up rows, once dispatches are formed.

IREE gives a workgroup 64 elements along each of the last two dims, so that rows are read in pieces
of 256 bytes; it takes single elements where a dim is no multiple of its tiles, and eight rows at a
time, a vector of each.  Here a workgroup has whole rows, what no vector holds is computed behind
the loop, and of a row that is added up four vectors are taken at a time.  On Zen 3, two threads,
in milliseconds (IREE's): 4096x1024 plus a row 1.9 (3.3), of bfloat16 1.1 (7.5); 1021x1013 plus a
row 0.4 (2.4), transposed 0.9 (2.6); sums of 4096x1024 along rows 0.9 (1.4), of columns 1.5 (5.2);
softmax of 1021x1863 1.8 (5.8), its layer norm 1.3 (4.4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

from ..cpu_machine import cpu_machine
from ..lowering_config import compilation_info, lowering_config
from ..target import Target
from .dispatch_text import (
    DIM,
    TYPE,
    Statement,
    bits_of,
    extents_of,
    reads_along,
    sizes_of,
    statements_of,
)

__all__ = ["DECOMPOSE", "Tilings", "lanes_of", "set_tiles", "softmax", "tiled", "tilings"]

Tilings = Mapping[str, Sequence[tuple[str, str]]]
"""By the name of an executable: of each of its loops and fills the name and text of an attribute.
"""

DECOMPOSE = (
    "flow.executable(builtin.module(func.func(iree-codegen-decompose-softmax{use-fusion=false})))"
)
"""IREE's pass that makes loops of a softmax.  It runs it itself before it chooses tiles, but then
each exponential is computed twice: for the sum, and for the quotient."""

# Elements of a workgroup, and its least share of all: beyond it there are too few for many cores.
_LEAST, _MOST, _SHARE = 4096, 16384, 1 / 16
# Of a transpose, along the rows of what is read and of what is written.
_READ, _WRITTEN = 64, 256
# Vectors at a time: of a row that is added up; of its like in the rows before it, where these are
# added up as well; and elements of columns.
_ALONG, _ROWS, _ACROSS = 4, 4, 64
# Vectors of a row whose largest or least element is looked for, at most; and how long a lane takes
# when those of a vector are put together, and an element that is left over.  LLVM compares lanes
# one by one, with a test for NaN each: for each 64 elements that was half of a softmax's time.
_COMPARED, _LANE, _LEFT = 32, 8, 6
# Vectors of an elementwise row from which on there are two at a time: 0.37 ms instead of 0.42 for
# rows of 1013, which leave 5 or 21 single elements.  So it is with columns: sums of 4096 rows of
# 1000 0.57 ms, 1.04 with one.
_LONG = 16

_CPU = re.compile(r"--iree-llvmcpu-target-cpu=(\S+)")
_EXECUTABLE = b"flow.executable private "
_NAME = re.compile(rb'@"?([^\s"]+)"?')
_LOOP, _FILL = b"linalg.generic", b"linalg.fill"
_OPS = re.compile(rb"(linalg\.generic|linalg\.fill) (\{?)")
_COMPARES = re.compile(rb" = arith\.m(?:ax|in)(?:imum|num)f ")
_PARALLEL = "vector_common_parallel"
_Placed = Mapping[bytes, Mapping[bytes, bytes]]
_BESIDE = frozenset(
    {_LOOP, _FILL, b"tensor.empty()", b"arith.constant", b"iree_tensor_ext.dispatch.tensor.load"}
)


def lanes_of(flags: Iterable[str]) -> int:
    """Return the elements of 32 bits in a vector of the CPU that flags name; 0 of a GPU's."""
    names = (found[1] for flag in flags if (found := _CPU.fullmatch(flag)))
    return next((cpu_machine(Target("llvm-cpu", name)).lanes for name in names), 0)


def softmax(dispatches: bytes) -> bool:
    """Return whether there is one for `DECOMPOSE`."""
    return b" linalg.softmax " in dispatches


def tilings(dispatches: bytes, lanes: int) -> Tilings:
    """Return the attributes of kernels that are elementwise or add up rows.

    Parameters
    ----------
    dispatches : bytes
        Text of the module with its dispatches.
    lanes : int
        As of `lanes_of`; there are none for 0.
    """
    kernels = dispatches.split(_EXECUTABLE)[1:] if lanes else ()
    return {_name(kernel): found for kernel in kernels if (found := _attributes(kernel, lanes))}


def _name(kernel: bytes) -> str:
    found = _NAME.match(kernel)
    assert found is not None
    return found[1].decode()


def _attributes(kernel: bytes, lanes: int) -> Sequence[tuple[str, str]]:
    if b"compilation_info" in kernel or b"tensor.extract" in kernel:
        return ()
    ops = list(statements_of(kernel))
    loops = [one for one in ops if one.op == _LOOP]
    if not loops or not {one.op for one in ops} <= _BESIDE or not all(map(_is_plain, loops)):
        return ()
    bits = [bits for one in loops for bits in bits_of(one.head)]
    if any(1 < n < 8 for n in bits):  # two workgroups may share a byte
        return ()
    root = max(loops, key=lambda one: (one.reduces, len(extents_of(one)), loops.index(one)))
    tiles = _tiles(loops, root, lanes * 32 // max(32, *bits))
    if tiles is None:
        return ()
    found = []
    for one in ops:
        if one.op == _LOOP:
            found.append(_attribute(one, tiles))
        elif one.op == _FILL:
            if _rank(one) != len(tiles.kept):
                return ()
            along = [tiles.at_once[dim] for dim in tiles.kept]
            found.append(("lowering_config", lowering_config({_PARALLEL: along})))
    return found


def _is_plain(loop: Statement) -> bool:
    """Return whether a loop of known extents reads and writes along dims, each of them once."""
    maps = [how for side in _maps(loop) for how in side]
    dims = all(DIM.fullmatch(dim) for how in maps for dim in how)
    once = all(len({*how}) == len(how) for how in maps)
    return len(maps) > len(loop.operands) and dims and once and b"?" not in loop.head


def _maps(loop: Statement) -> tuple[list[list[bytes]], list[list[bytes]]]:
    """Return along which dims of a loop its operands lie, and its results."""
    count = len(loop.operands)
    maps = [[dim for dim in reads_along(how) if dim] for how in loop.maps]
    return maps[:count], maps[count:]


def _names(loop: Statement) -> list[bytes]:
    """Return the dims of a loop, in order."""
    return sorted(extents_of(loop), key=lambda dim: int(dim[1:]))


def _rank(fill: Statement) -> int:
    *_, (shape, _) = TYPE.findall(fill.head)
    return len(sizes_of(shape))


class _Tiles(NamedTuple):
    """The tiles of a kernel, by the dims of its root.

    Attributes
    ----------
    root : Statement
        The loop that workgroups share.
    kept : list of bytes
        The dims of its result.
    workgroup, at_once : dict of bytes to int
        Elements of a workgroup along the dims of the result; of vectors along all.
    placed : dict of bytes to dict
        By the first result of a loop: its dims as those of the root.
    compared : dict of bytes to int
        Elements of vectors along a row whose largest or least element is looked for, if any is.
    """

    root: Statement
    kept: Sequence[bytes]
    workgroup: Mapping[bytes, int]
    at_once: Mapping[bytes, int]
    placed: _Placed
    compared: Mapping[bytes, int]


def _attribute(one: Statement, tiles: _Tiles) -> tuple[str, str]:
    dims = [tiles.placed[one.names[0]][dim] for dim in _names(one)]
    common = [tiles.at_once[dim] if dim in tiles.kept else 0 for dim in dims]
    inner = [0 if dim in tiles.kept else tiles.at_once[dim] for dim in dims]
    if one.reduces and _COMPARES.search(one.text):
        inner = [tiles.compared.get(dim, n) for dim, n in zip(dims, inner, strict=True)]
    levels = {_PARALLEL: common}
    if any(inner):
        levels["vector_reduction" if one.reduces else "vector_inner_parallel"] = inner
    if one is not tiles.root:
        return "lowering_config", lowering_config(levels)
    workgroup = [tiles.workgroup.get(dim, 0) for dim in dims]
    return "compilation_info", compilation_info({"distribution": workgroup, **levels})


def _tiles(loops: Sequence[Statement], root: Statement, lanes: int) -> _Tiles | None:
    """Return the tiles of a kernel; None where there are no whole vectors, or it is a matmul.

    Parameters
    ----------
    loops : sequence of Statement
    root : Statement
        One with all dims: the last of those that add up, if there are any.
    lanes : int
        Elements of a vector, of the widest type.
    """
    extents, (inputs, (kept, *others)) = extents_of(root), _maps(root)
    summed = {*extents}.difference(kept)
    # What has all dims is read: the others are matmuls.  A number for each element is made anew.
    full = [how for how in inputs if len(how) == len(extents)]
    placed = _placed(loops, root)
    if placed is None or any(how != kept for how in others) or not kept or (summed and not full):
        return None
    if not all(_sums_alike(one, placed[one.names[0]], kept) for one in loops if one.reduces):
        return None
    order = full[0] if summed else kept
    row, ends = order[-1], _ends(loops, placed, order[-1])
    if min(extents[dim] for dim in (row, *ends)) < lanes:
        return None
    if len(ends) > 1 or (ends and (len(loops) > 1 or summed)):
        return None
    at_once = dict.fromkeys(extents, 1) | dict.fromkeys(ends, lanes)
    at_once[row] = lanes * _vectors(extents[row], lanes, row in summed, bool(summed), bool(ends))
    if len(loops) == 1 and row in summed and len(summed) > 1:
        before = [dim for dim in order if dim in summed][-2]
        at_once[before] = min(extents[before], _ROWS)
    left = min(max(_LEAST, prod(extents.values()) * _SHARE), _MOST)
    left /= prod(extents[dim] for dim in summed)
    workgroup = dict[bytes, int]()
    for end in ends:
        workgroup = {end: min(extents[end], _READ), row: min(extents[row], _WRITTEN)}
        left /= prod(workgroup.values())
    for dim in reversed([dim for dim in order if dim in kept and dim not in workgroup]):
        step = at_once[dim]
        workgroup[dim] = min(extents[dim], max(int(left) // step * step, step))
        left /= workgroup[dim]
    compared = {row: lanes * _compared(extents[row], lanes)} if row in summed else {}
    return _Tiles(root, kept, workgroup, at_once, placed, compared)


def _vectors(extent: int, lanes: int, along: bool, summed: bool, ends: bool) -> int:
    """Return how many vectors of a row are taken at a time.

    ``along``: it is added up; ``summed``: something is; ``ends``: something lies transposed.
    """
    whole, rest = divmod(extent, lanes)
    pair = 2 if whole >= _LONG else 1
    if not summed:
        return 1 if ends else pair
    if along:
        return min(whole, _ALONG)
    # Of columns what is left over is added up one by one, and so is all of numbers of vectors that
    # are no power of two.  Means of channels-last images, Xeon: 8x144x56x56 1.4 ms with 8 of the 9
    # vectors, with 1 0.27; 8x672x14x14 0.63 with 7 of 42, with 2 0.11; 8x100x28x28 0.80, 0.07.
    return pair if rest else min(_ACROSS // lanes, whole & -whole)


def _compared(extent: int, lanes: int) -> int:
    """Return how many vectors of a row are compared at a time.

    Where they leave no rest they are a power of two: others become code for single elements.
    """
    whole = extent // lanes

    def time(vectors: int) -> tuple[int, int]:
        times, step = whole // vectors, vectors * lanes
        return times * lanes * _LANE + (extent - times * step) * _LEFT, -vectors

    most = range(1, min(whole, _COMPARED) + 1)
    return min((n for n in most if n & (n - 1) == 0 or extent % (n * lanes)), key=time)


def _ends(loops: Iterable[Statement], placed: _Placed, row: bytes) -> set[bytes]:
    """Return the last dims, of the root, of what has its row elsewhere: it lies transposed."""
    ways = ([placed[one.names[0]][dim] for dim in how] for one in loops for _, how in _values(one))
    return {how[-1] for how in ways if row in how[:-1]}


def _sums_alike(one: Statement, dims: Mapping[bytes, bytes], kept: Sequence[bytes]) -> bool:
    """Return whether a loop adds up along dims that its kernel's root adds up along as well."""
    results = {dims[dim] for how in _maps(one)[1] for dim in how}
    return results <= {*kept} and not {*dims.values()}.difference(results) & {*kept}


def _values(loop: Statement) -> list[tuple[bytes, list[bytes]]]:
    """Return what a loop reads and makes, each with the dims along which it does."""
    inputs, results = _maps(loop)
    return list(zip((*loop.operands, *loop.names), (*inputs, *results), strict=True))


def _placed(loops: Sequence[Statement], root: Statement) -> _Placed | None:
    """Return the dims of loops, by their first result, as those of the root.

    Dims are the same along which two loops read or make one value.  None if a loop has others.
    """
    extents, lie = extents_of(root), dict[bytes, list[bytes]]()
    known: dict[bytes, Mapping[bytes, bytes]] = {root.names[0]: {dim: dim for dim in extents}}
    for one in [*loops] * len(loops):
        dims = dict(known.get(one.names[0], {}))
        for value, how in _values(one):
            dims |= zip(how, lie.get(value, ()), strict=False)
        if dims.keys() == extents_of(one).keys():
            known[one.names[0]] = dims
            lie |= {value: [dims[dim] for dim in how] for value, how in _values(one)}
    return known if all(_fits(one, known, extents, lie) for one in loops) else None


def _fits(
    one: Statement, known: _Placed, extents: Mapping[bytes, int], lie: Mapping[bytes, list[bytes]]
) -> bool:
    """Return whether a loop's dims are known, and each the same wherever its values are read."""
    dims, mine = known.get(one.names[0], {}), extents_of(one)
    if len({*dims.values()}) < len(mine):
        return False
    same = all(extents[dims[dim]] == size for dim, size in mine.items())
    return same and all([dims[dim] for dim in how] == lie[value] for value, how in _values(one))


def set_tiles(session: Any, invocation: Any, chosen: Tilings) -> None:
    """Give the loops and fills of kernels these attributes."""
    context = session.context  # Python's from now on, which frees it after the module
    module = invocation.export_module()
    with context:
        from iree.compiler import ir

        for op in module.regions[0].blocks[0].operations:
            if op.operation.name == "flow.executable":
                name = ir.StringAttr(op.operation.attributes["sym_name"]).value
                found = chosen.get(name, ())
                for one, (key, text) in zip(_tiled(op.operation), found, strict=bool(found)):
                    one.attributes[key] = ir.Attribute.parse(text)
    invocation.import_module(module)


def _tiled(op: Any) -> Iterator[Any]:
    """Yield the loops and fills inside an op, in order."""
    for one in (one.operation for region in op.regions for block in region for one in block):
        if one.name.encode() in (_LOOP, _FILL):
            yield one
        else:
            yield from _tiled(one)


def tiled(dispatches: bytes, chosen: Tilings) -> bytes:
    """Return the text with the same attributes, for the command line tool."""
    first, *kernels = dispatches.split(_EXECUTABLE)
    for i, kernel in enumerate(kernels):
        if found := chosen.get(_name(kernel)):
            kernels[i] = _OPS.sub(partial(_with, iter(found)), kernel)
    return _EXECUTABLE.join([first, *kernels])


def _with(found: Iterator[tuple[str, str]], op: re.Match[bytes]) -> bytes:
    attribute = " = ".join(next(found)).encode()
    return b"%s {%s%s" % (op[1], attribute, b", " if op[2] else b"} ")
