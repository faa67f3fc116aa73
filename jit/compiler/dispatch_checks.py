# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Defects that show in the dispatches which the compiler has formed, before their code is made.

Rules of `workarounds` see many of them coming; what the compiler makes of reshapes, transposes and
equal expressions is known only here.  The module is then compiled again: with other flags, or in
another way (`jit.attempts`), until it passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import combinations
from math import prod
from typing import NamedTuple

from ..subgroup_sums import loses_sums
from .dispatch_text import (
    DIM,
    REDUCTION,
    TYPE,
    Product,
    Statement,
    bits_of,
    convolutions,
    extents_of,
    products,
    reads_along,
    sizes_of,
    statements_of,
)

__all__ = ["CHECKS", "Check", "Defective", "check", "checks_for"]


class Check(NamedTuple):
    """One defect of the compiler.

    Attributes
    ----------
    id : str
        The workaround's, as ``W-133``.
    flags : tuple of str
        With one of them there may be such kernels.
    strikes : callable
        Whether a kernel has the defect, given its text.
    instead : tuple of str
        Flags with which there are no such kernels; none where only other code helps.
    reason : str
        What is wrong, for the error of an attempt.
    unless : tuple of str
        Flags with which such kernels are right.
    """

    id: str
    flags: tuple[str, ...]
    strikes: Callable[[bytes], bool]
    instead: tuple[str, ...] = ()
    reason: str = ""
    unless: tuple[str, ...] = ()


class Defective(Exception):  # noqa: N818 - an answer, not a defect of ours
    """The code would be wrong."""

    def __init__(self, found: Check) -> None:
        super().__init__(found.id)
        self.found = found


def checks_for(flags: Collection[str]) -> tuple[Check, ...]:
    """Return the checks of modules that are compiled with these flags."""
    return tuple(
        one
        for one in CHECKS
        if not set(one.flags).isdisjoint(flags) and {*one.instead, *one.unless}.isdisjoint(flags)
    )


def check(checks: Iterable[Check], dispatches: bytes) -> None:
    """Raise `Defective` for the first check that a kernel does not pass."""
    kernels = dispatches.split(b"flow.executable private ")[1:]
    for one in checks:
        if any(map(one.strikes, kernels)):
            raise Defective(one)


_KEPT = "--iree-flow-enable-pad-handling"
_THROUGH = "--iree-global-opt-propagate-transposes-through-conv"
_FUSED = "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops"
_SHARED = "--iree-dispatch-creation-fuse-multi-use"
_SPLIT = "--iree-dispatch-creation-enable-split-reduction"
_DIRECT = "--iree-codegen-llvmgpu-use-direct-convolution"

_STORED = re.compile(rb"dispatch\.tensor\.store (%\w+(?:#\d+)?)")
_MULTIPLIES = re.compile(rb"= arith\.mulf ")
_SUMMAND = re.compile(rb"= arith\.(?:add|mul)[fi] (?:%out, (%\w+)|(%\w+), %out\b)")
_MADE = re.compile(rb"(%\w+)(?: =|:[ \d])")  # in a region: its arguments, and its results
_REDUCE = re.compile(rb" linalg\.reduce ins\(%\w+ : ([^)]*)\).* dimensions = \[([\d, ]+)\]")


def _pads_alone(kernel: bytes) -> bool:
    """W-133: a pad that no loop which adds up reads is compiled wrongly for GPUs (W-054)."""
    return b" tensor.pad " in kernel and REDUCTION not in kernel


def _adds_again(kernel: bytes) -> bool:
    """W-109: a sum that is stored, and read by a loop that adds up, is added up by it again.

    So is one of tiled data, where what is made of it is stored.
    """
    if len(_STORED.findall(kernel)) < 2:
        return False
    statements = list(statements_of(kernel))
    stored = set(_STORED.findall(kernel))
    for one in reversed(statements):
        if one.moves and not stored.isdisjoint(one.names):
            stored.update(one.operands)
    sums: dict[bytes, set[bytes]] = {}  # of which a value is made
    untiled: set[bytes] = set()  # what is made of sums of tiled data
    for one in statements:
        of = set[bytes]().union(*(sums.get(name, ()) for name in one.operands))
        made = untiled.intersection(one.operands)
        if one.reduces and not (of | made).isdisjoint(stored):
            return True
        if made or (of and one.op == b"iree_encoding.unset_encoding"):
            untiled.update(one.names)
        sums |= {name: of | {name} if one.adds else of for name in one.names}
    return False


def _adds_up_sums(kernel: bytes) -> bool:
    """W-144: what is made of sums is added up along a dim of theirs, and stored with that dim.

    The tiles along it are those of the one loop or of the other, as it happens.
    """
    axes: dict[bytes, set[int]] = {}  # of a value, along which sums lie that it is made of
    kept, stored, ranks = list[int](), set(_STORED.findall(kernel)), {0}
    for one in statements_of(kernel):
        if not (one.loops and one.maps):
            continue
        count = len(one.operands)
        of = {
            at
            for name, how in zip(one.operands, one.maps, strict=False)
            for axis, at in enumerate(reads_along(how))
            if axis in axes.get(name, ())
        }
        for name, how in zip(one.names, one.maps[count:], strict=False):
            mine = reads_along(how)
            if one.reduces and not of.issubset(mine):
                kept.append(len(mine))
            elif of and not one.reduces and name in stored:
                ranks.add(len(mine))
            axes[name] = {i for i, at in enumerate(mine) if one.reduces or at in of}
    return bool(kept) and max(ranks) > min(kept)


def _adds_a_constant(kernel: bytes) -> bool:
    """W-146: what a loop adds up is the same number for all elements, and is added once."""
    for one in statements_of(kernel):
        if one.adds and one.maps:
            region = one.text[len(one.head) :]
            made = set(_MADE.findall(region))
            if any((a or b) not in made for a, b in _SUMMAND.findall(region)):
                return True
    return False


def _crosses(wave: int, kernel: bytes) -> bool:
    """W-145: two factors of what is added up along several dims lie along these in two orders.

    Rows of whole waves are added up by other code, which is right; so are sums where a thread has
    one of them, and not four along the last dim.  Where another loop adds up what is made of them,
    its tiles are not theirs, and a thread has all of a row.
    """
    whole: set[bytes] = set()  # what is made of sums with such factors
    orders: dict[bytes, set[tuple[int, ...]]] = {}  # in which a value's dims are read
    crossed: dict[bytes, set[frozenset[int]]] = {}  # pairs of its dims
    for one in statements_of(kernel):
        if not (one.loops and one.operands and len(one.maps) > len(one.operands)):
            continue
        ways: set[tuple[bytes, ...]] = set()
        pairs: set[frozenset[bytes]] = set()
        for name, how in zip(one.operands, one.maps, strict=False):
            mine = reads_along(how)
            as_it_lies = {tuple(range(len(mine)))}
            ways |= {tuple(mine[i] for i in order) for order in orders.get(name, as_it_lies)}
            pairs |= {frozenset(mine[i] for i in pair) for pair in crossed.get(name, ())}
        if _MULTIPLIES.search(one.text):
            pairs |= _in_both_orders(ways)
        result = reads_along(one.maps[len(one.operands)])
        reduced = {dim for pair in pairs for dim in pair if dim not in result}
        again = not whole.isdisjoint(one.operands)
        if one.adds and again:
            return True
        met = one.adds and any(pair <= reduced for pair in pairs)
        if met and _by_fours(one, wave):
            return True
        if met or again:
            whole.update(one.names)
        for name, how in zip(one.names, one.maps[len(one.operands) :], strict=False):
            at = {dim: i for i, dim in enumerate(reads_along(how))}
            orders[name] = {tuple(at[d] for d in way if d in at) for way in ways}
            crossed[name] = {frozenset(at[d] for d in p) for p in pairs if p <= at.keys()}
    return False


def _in_both_orders(ways: Collection[tuple[bytes, ...]]) -> set[frozenset[bytes]]:
    """Return the pairs of dims that come in both orders."""
    before = {pair for way in ways for pair in combinations(way, 2)}
    return {frozenset((a, b)) for a, b in before if (b, a) in before}


def _by_fours(one: Statement, wave: int) -> bool:
    """Whether a thread has four results of a loop, of rows that are no whole waves."""
    result = reads_along(one.maps[len(one.operands)])
    extents = {dim: size for dim, size in extents_of(one).items() if DIM.fullmatch(dim)}
    row = prod(size for dim, size in extents.items() if dim not in result)
    kept = [extents[dim] for dim in sorted(extents, key=lambda dim: int(dim[1:])) if dim in result]
    return bool(kept) and row % wave > 0 and kept[-1] % 4 == prod(kept) % (4 * wave) == 0


def _reads_two_ways(kernel: bytes) -> bool:
    """W-099: what reads a loop's result along two dims leaves part of its own unwritten."""
    came: dict[bytes, tuple[bytes, bytes]] = {}  # the loop's result, and the last move
    for one in statements_of(kernel):
        if one.moves:
            if found := came.get(one.operands[0] if one.operands else b""):
                came[one.names[0]] = found[0], one.names[0]
        elif one.loops:
            ways: dict[bytes, tuple[bytes, bytes]] = {}
            for name, along in zip(one.operands, one.maps, strict=False):
                source, move = came.get(name, (b"", b""))
                if source and ways.setdefault(source, (move, along)) != (move, along):
                    return True
            if one.operands:  # indices are made where they are read
                came |= {name: (name, b"") for name in one.names}
    return _reads_relatives_two_ways(kernel)


def _reads_relatives_two_ways(kernel: bytes) -> bool:
    """W-099, of two results where one is made of the other, or both of a third one.

    A dim of a result is the same as those of others along which loops read or made it.  A loop that
    reads results along two of its dims, which are the same, has the defect.
    """
    same: list[int] = []  # of each dim another one that is the same, or itself

    def first(dim: int) -> int:
        while same[dim] != dim:
            dim = same[dim]
        return dim

    made: dict[bytes, list[int]] = {}  # the dims of results
    for one in statements_of(kernel):
        if not (one.loops and one.maps and one.operands):
            continue
        along: dict[bytes, int] = {}  # the dims of what is read, by those of the loop
        read = [
            (first(dim), at)
            for name, how in zip(one.operands, one.maps, strict=False)
            for dim, at in zip(made.get(name, ()), reads_along(how), strict=False)
            if DIM.fullmatch(at)
        ]
        for dim, at in read:
            same[dim] = first(along.setdefault(at, dim))
        if len({first(dim) for dim in along.values()}) < len(along):
            return True
        for name, how in zip(one.names, one.maps[len(one.operands) :], strict=False):
            for at in reads_along(how):
                if at not in along:
                    along[at] = len(same)
                    same.append(len(same))
            made[name] = [along[at] for at in reads_along(how)]
    return False


def _stores_beside_two_orders(kernel: bytes) -> bool:
    """W-148: a product is stored, and what is made of it is stored in another order.

    Of two dims: in both orders; the tiles of the one order are those of the loop, and columns of
    the product become equal.  Of three dims: in another one; subgroups store to the same places.
    """
    stored, made = set(_STORED.findall(kernel)), set[bytes]()
    for one in statements_of(kernel):
        if one.adds and len(one.operands) > 1:
            made.update(one.names)
        elif not made.isdisjoint(one.operands) and not one.reduces:
            count = len(one.operands)
            orders = {*one.maps[count:]}
            if len(orders) > 1:
                return not made.isdisjoint(stored)
            read = {
                how
                for name, how in zip(one.operands, one.maps, strict=False)
                if name in stored & made
            }
            turned = any(len(reads_along(how)) > 2 for how in read - orders)
            if turned and not stored.isdisjoint(one.names):
                return True
            made.update(one.names)
    return False


def _repeats_attention(kernel: bytes) -> bool:
    """W-139: one thread computes a row of attention, and others repeat what they have in its place.

    So it is where a loop that reads the rows, or what is made of them, has a dim that they lack.
    """
    rows: set[bytes] = set()
    for one in statements_of(kernel):
        if one.op == b"iree_linalg_ext.attention":
            rows.update(one.names)
        for name, along in zip(one.operands, one.maps, strict=False):
            dims, _, read = along.partition(b" -> ")
            if name in rows and not set(DIM.findall(dims)) <= set(DIM.findall(read)):
                return True
        if not rows.isdisjoint(one.operands):
            rows.update(one.names)
    return False


_LOAD_BITS, _DEPTH = 128, 16  # what a thread loads at a time; a multiple of the instructions' k


def _reads_next_matrix(kernel: bytes) -> bool:
    """W-071: rows behind k are read of both operands, and multiplied with each other."""
    return any(
        all(_reads_on(one, read) for read in (one.left, one.right))
        for one in products(statements_of(kernel))
        if _of_matrices(one)
    )


def _reads_on(one: Product, read: tuple[bytes, ...]) -> bool:
    """Whether an operand of many matrices lies row by row along k, and neither fills loads."""
    return _ends_inside(one, read) and one.extents[read[-1]] % (_LOAD_BITS // one.bits) > 0


def _ends_inside(one: Product, read: tuple[bytes, ...]) -> bool:
    """Whether an operand of many matrices lies row by row along k, which is no multiple."""
    *outer, last = read
    summed = [k for k in outer[1:] if k not in one.result and one.extents[k] % _DEPTH]
    return bool(summed) and last in one.result


def _reads_stale_registers(kernel: bytes) -> bool:
    """W-071: rows behind k are what a register held, of an operand that the kernel widens first."""
    statements = list(statements_of(kernel))
    widened: set[bytes] = set()
    for one in statements:
        bits, count = bits_of(one.head), len(one.operands)
        grows = min(bits[:count], default=64) < min(bits[count:], default=0)
        passes = one.moves or (one.maps and not one.reduces)
        if passes and (grows or not widened.isdisjoint(one.operands)):
            widened.update(one.names)
    return any(
        name in widened and _ends_inside(one, read)
        for one in products(statements)
        if _of_matrices(one)
        for name, read in zip(one.operands, (one.left, one.right), strict=True)
    )


def _of_matrices(one: Product) -> bool:
    """Whether both operands have a dim of the result that the other one lacks."""
    left, right = set(one.left), set(one.right)
    return not left.isdisjoint({*one.result} - right) and not right.isdisjoint({*one.result} - left)


def _loses_split_sums(kernel: bytes) -> bool:
    """W-128: the sums of a split reduction are added up by more subgroups than lanes read.

    Only a split one makes this op; it has the dims of what was split.
    """
    for kind, dims in _REDUCE.findall(kernel):
        ((shape, _),) = TYPE.findall(kind)
        sizes = sizes_of(shape)
        if _lost([sizes[int(at)] for at in dims.split(b",")], bits_of(kind)[0]):
            return True
    return False


def _loses_sums(kernel: bytes) -> bool:
    """W-128: the sums of a row over several dims are added up by more subgroups than lanes read."""
    for one in statements_of(kernel):
        if not one.reduces or not one.maps or b" + " in b" ".join(one.maps):
            continue
        extents, dims = extents_of(one), DIM.findall(one.maps[0].partition(b" -> ")[0])
        kept = {d for how in one.maps[len(one.operands) :] for d in reads_along(how)}
        row = [extents[d] for d in dims if d not in kept]
        matrices = any(map(_of_matrices, products([one])))
        if not matrices and any(_lost(row, bits) for bits in set(bits_of(one.head))):
            return True
    return False


def _lost(row: Sequence[int], bits: int) -> bool:
    """Whether sums of a row over these dims are lost, of elements of so many bits."""
    count, most = prod(row), _LOAD_BITS // bits
    loads = next((n for n in (16, 8, 4, 2) if n <= most and count % (64 * n) == 0), 1)
    return len(row) > 1 and loses_sums(count, row[-1], loads)


_FEW = 8  # filters of a group, for which a matrix instruction takes several groups


def _blocks_behind_rows(kernel: bytes) -> bool:
    """W-140: groups of few filters, which lie behind the places of an image in the result."""
    for one in products(statements_of(kernel)):
        for x, filters in ((one.left, one.right), (one.right, one.left)):
            moving = set(DIM.findall(b" ".join(x)))
            groups = [d for d in one.result if d in moving and d in filters]
            places = [d for d in one.result if d in moving and d not in filters]
            each = [d for d in one.result if d not in moving]
            if not any(b" + " in d for d in x) or not (groups and places and each):
                continue
            behind = one.result.index(groups[-1]) > one.result.index(places[-1])
            count, width, few = (one.extents[d[-1]] for d in (groups, places, each))
            # The instruction for 16 groups has one register for a row of all of them.
            of_16 = count % 16 == 0 and (few <= 4 or few % 4 == width % 4 == 0)
            if behind and count % 4 == 0 and few <= _FEW and not of_16:
                return True
    return False


def _mixes_layouts(kernel: bytes) -> bool:
    """W-050: a channels-first image meets a channels-last filter."""
    return any(
        one.image.index(channel) < at and one.filters.index(channel) > one.filters.index(window)
        for one in convolutions(kernel)
        for channel in one.channels
        for window, at in one.windows.items()
    )


def _parts_channels(kernel: bytes) -> bool:
    """W-150: groups lie between the channels of an image and a dim that the filter spans."""
    return any(
        one.image.index(one.channels[0])
        < one.image.index(group)
        < one.image.index(one.channels[-1])
        for one in convolutions(kernel)
        if one.channels
        for group in one.groups
    )


_CROSSED = "factors of a sum lie in two orders along its dims; others would be multiplied"
_CPU, _ROCM, _CUDA = (f"--iree-hal-target-backends={name}" for name in ("llvm-cpu", "rocm", "cuda"))

CHECKS = (
    Check(
        "W-133",
        (_KEPT, f"{_KEPT}=true"),
        _pads_alone,
        (f"{_KEPT}=false", f"{_FUSED}=false"),
    ),
    Check("W-109", (_CPU,), _adds_again, (f"{_SHARED}=false",)),
    Check("W-144", (_CPU, _ROCM, _CUDA), _adds_up_sums, (f"{_SHARED}=false",)),
    *(
        Check("W-145", (backend,), partial(_crosses, wave), reason=_CROSSED)
        for backend, wave in ((_ROCM, 64), (_CUDA, 32))
    ),
    Check(
        "W-146",
        (_CPU, _ROCM, _CUDA),
        _adds_a_constant,
        reason="a sum of equal numbers; one of them would be added",
    ),
    Check(
        "W-099",
        (_CPU, _ROCM, _CUDA),
        _reads_two_ways,
        reason="one op reads a result along two dims; part of what it computes would be unwritten",
    ),
    Check(
        "W-139",
        (_ROCM,),
        _repeats_attention,
        reason="rows of attention are repeated in its kernel; most of them would be unwritten",
    ),
    Check(
        "W-148",
        (_ROCM,),
        _stores_beside_two_orders,
        reason="a product is stored beside what is made of it in two orders; it would be mixed up",
    ),
    Check(
        "W-050",
        (_ROCM, _CUDA),
        _mixes_layouts,
        reason="a channels-first image meets a channels-last filter; places would be mixed up",
        unless=(_DIRECT,),
    ),
    Check(
        "W-150",
        (_ROCM,),
        _parts_channels,
        reason="groups lie between the channels of an image and a dim that the filter spans; they "
        "would be mixed up",
    ),
    Check("W-128", (_SPLIT,), _loses_split_sums, (f"{_SPLIT}=false",)),
    Check(
        "W-128",
        (_ROCM,),
        _loses_sums,
        reason="a row over several dims is added up by more subgroups than lanes read their sums",
    ),
    Check("W-140", (_THROUGH,), _blocks_behind_rows, (f"{_THROUGH}=false",)),
    Check(
        "W-140",
        (f"{_THROUGH}=false",),
        _blocks_behind_rows,
        reason="groups of few filters lie behind the places of an image; results would be mixed up",
    ),
    Check(
        "W-071",
        (_ROCM,),
        _reads_next_matrix,
        reason="both operands of a batch of matmuls lie along k; rows of the next matrix are read",
    ),
    Check(
        "W-071",
        (_ROCM,),
        _reads_stale_registers,
        reason="an operand of a batch of matmuls is widened beside it; rows behind k are no zeros",
    ),
)
