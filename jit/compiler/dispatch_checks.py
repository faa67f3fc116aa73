# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Defects that show in the dispatches which the compiler has formed, before their code is made.

Rules of `workarounds` see many of them coming; what the compiler makes of reshapes, transposes and
equal expressions is known only here.  The module is then compiled again: with other flags, or in
another way (`jit.attempts`), until it passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

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
    """

    id: str
    flags: tuple[str, ...]
    strikes: Callable[[bytes], bool]
    instead: tuple[str, ...] = ()
    reason: str = ""


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
        if not set(one.flags).isdisjoint(flags) and set(one.instead).isdisjoint(flags)
    )


def check(checks: Iterable[Check], dispatches: bytes) -> None:
    """Raise `Defective` for the first check that a kernel does not pass."""
    kernels = dispatches.split(b"flow.executable private ")[1:]
    for one in checks:
        if any(map(one.strikes, kernels)):
            raise Defective(one)


_KEPT = "--iree-flow-enable-pad-handling"
_FUSED = "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops"
_SHARED = "--iree-dispatch-creation-fuse-multi-use"

_REDUCTION = b'"reduction"'
_STATEMENT = re.compile(rb"\n(?= {8}[%\w])")  # of the kernel's function, with its region
_HEAD = re.compile(rb" *(%\w+)(?::(\d+))? = (\S+) (.*)")
_INPUTS = re.compile(rb" ins\(([^:)]*)")
_STORED = re.compile(rb"dispatch\.tensor\.store (%\w+(?:#\d+)?)")
_VALUE = re.compile(rb"%\w+(?:#\d+)?")
_MAP = re.compile(rb"affine_map<(.*?)>[],]")
_ADDS = re.compile(rb"= arith\.(?:add|mul)[fi] .*%out\b")


def _pads_alone(kernel: bytes) -> bool:
    """W-133: a pad that no loop which adds up reads is compiled wrongly for GPUs (W-054)."""
    return b" tensor.pad " in kernel and _REDUCTION not in kernel


class _Statement(NamedTuple):
    """An operation of a kernel's function.

    Attributes
    ----------
    names : tuple of bytes
        Its results, as others name them.
    op : bytes
    operands : tuple of bytes
        What it reads: of a loop not what it initialises its results with.
    maps : tuple of bytes
        Of a generic loop: along which of its dims it reads each operand.
    reduces, adds : bool
        Whether it is a loop over a dim that its result lacks, and whether that adds up.
    """

    names: tuple[bytes, ...]
    op: bytes
    operands: tuple[bytes, ...]
    maps: tuple[bytes, ...]
    reduces: bool
    adds: bool

    @property
    def loops(self) -> bool:
        return self.op.startswith((b"linalg.", b"iree_linalg_ext.")) and self.op != b"linalg.fill"

    @property
    def moves(self) -> bool:
        return self.op.startswith((b"tensor.", b"iree_encoding."))


def _statements(kernel: bytes) -> Iterator[_Statement]:
    for text in _STATEMENT.split(kernel):
        if head := _HEAD.match(text):
            name, count, op, rest = head.groups()
            names = tuple(b"%s#%d" % (name, k) for k in range(int(count))) if count else (name,)
            generic = op == b"linalg.generic"
            inputs = _INPUTS.search(rest)
            operands = tuple(_VALUE.findall(inputs[1] if inputs else rest.partition(b" outs(")[0]))
            maps = tuple(_MAP.findall(rest.partition(b"iterator_types")[0])) if generic else ()
            one = _Statement(names, op, operands, maps, False, False)
            reduces = one.loops and (not generic or _REDUCTION in head[0])
            adds = reduces and (not generic or bool(_ADDS.search(text)))
            yield one._replace(reduces=reduces, adds=adds)


def _adds_again(kernel: bytes) -> bool:
    """W-109: a sum that is stored, and read by a loop that adds up, is added up by it again.

    So is one of tiled data, where what is made of it is stored.
    """
    if len(_STORED.findall(kernel)) < 2:
        return False
    statements = list(_statements(kernel))
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


def _reads_two_ways(kernel: bytes) -> bool:
    """W-099: what reads a loop's result along two dims leaves part of its own unwritten."""
    came: dict[bytes, tuple[bytes, bytes]] = {}  # the loop's result, and the last move
    for one in _statements(kernel):
        if one.moves:
            if found := came.get(one.operands[0] if one.operands else b""):
                came[one.names[0]] = found[0], one.names[0]
        elif one.loops:
            ways: dict[bytes, tuple[bytes, bytes]] = {}
            for name, along in zip(one.operands, one.maps, strict=False):
                source, move = came.get(name, (b"", b""))
                if source and ways.setdefault(source, (move, along)) != (move, along):
                    return True
            came |= {name: (name, b"") for name in one.names}
    return False


_CPU, _ROCM, _CUDA = (f"--iree-hal-target-backends={name}" for name in ("llvm-cpu", "rocm", "cuda"))

CHECKS = (
    Check(
        "W-133",
        (_KEPT, f"{_KEPT}=true"),
        _pads_alone,
        (f"{_KEPT}=false", f"{_FUSED}=false"),
    ),
    Check("W-109", (_CPU,), _adds_again, (f"{_SHARED}=false",)),
    Check(
        "W-099",
        (_CPU, _ROCM, _CUDA),
        _reads_two_ways,
        reason="one op reads a result along two dims; part of what it computes would be unwritten",
    ),
)
