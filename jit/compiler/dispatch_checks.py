# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Defects that show in the dispatches which the compiler has formed, before their code is made.

Rules of `workarounds` see many of them coming; what the compiler makes of reshapes, transposes and
equal expressions is known only here.  The module is then compiled again with other flags.
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
        Flags with which there are no such kernels.
    """

    id: str
    flags: tuple[str, ...]
    strikes: Callable[[bytes], bool]
    instead: tuple[str, ...]


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
_HEAD = re.compile(rb" *(%\w+)(?::\d+)? = (\S+) (.*)")
_STORED = re.compile(rb"dispatch\.tensor\.store (%\w+)")
_VALUE = re.compile(rb"%\w+")
_ADDS = re.compile(rb"= arith\.(?:add|mul)[fi] .*%out\b")
_LOOPS, _MOVES = (b"linalg.", b"iree_linalg_ext."), (b"tensor.", b"iree_encoding.")


def _pads_alone(kernel: bytes) -> bool:
    """W-133: a pad that no loop which adds up reads is compiled wrongly for GPUs (W-054)."""
    return b" tensor.pad " in kernel and _REDUCTION not in kernel


class _Statement(NamedTuple):
    name: bytes
    op: bytes
    operands: tuple[bytes, ...]
    reduces: bool
    adds: bool


def _statements(kernel: bytes) -> Iterator[_Statement]:
    for text in _STATEMENT.split(kernel):
        if head := _HEAD.match(text):
            name, op, rest = head.groups()
            operands = tuple(_VALUE.findall(rest.partition(b" outs(")[0]))
            generic = op == b"linalg.generic"
            named = op.startswith(_LOOPS) and not generic and op != b"linalg.fill"
            reduces = named or _REDUCTION in head[0]
            adds = reduces and (named or bool(_ADDS.search(text)))
            yield _Statement(name, op, operands, reduces, adds)


def _adds_again(kernel: bytes) -> bool:
    """W-109: a sum that is stored, and read by a loop that adds up, is added up by it again."""
    if len(_STORED.findall(kernel)) < 2:
        return False
    statements = list(_statements(kernel))
    stored = set(_STORED.findall(kernel))
    for one in reversed(statements):
        if one.name in stored and one.op.startswith(_MOVES):
            stored.update(one.operands)
    sums: dict[bytes, set[bytes]] = {}  # of which a value is made
    for one in statements:
        of = set[bytes]().union(*(sums.get(name, ()) for name in one.operands))
        if one.reduces and not of.isdisjoint(stored):
            return True
        sums[one.name] = of | {one.name} if one.adds else of
    return False


CHECKS = (
    Check(
        "W-133",
        (_KEPT, f"{_KEPT}=true"),
        _pads_alone,
        (f"{_KEPT}=false", f"{_FUSED}=false"),
    ),
    Check("W-109", ("--iree-hal-target-backends=llvm-cpu",), _adds_again, (f"{_SHARED}=false",)),
)
