# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The code of a gfx9 kernel as its assembly has it: instructions, and loops with their trips.

LLVM prints no comments about loops here, so they are found by branches back to a block that every
way to the branch goes through; other branches back end blocks that were put out of the way.  How
often a loop runs is read from its counter where that is plain: a register that one instruction
of the loop moves by a constant, compared with a constant.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Code", "Instruction", "Loop", "parse_code"]

_LABEL = re.compile(r"^(?P<label>[.\w$]+):")
_INSTRUCTION = re.compile(r"^\s+(?P<name>[a-z]\w*)\s*(?P<operands>.*)$")
_REGISTER = re.compile(r"[sv]\d+")
_ENCODING = re.compile(r"_e(32|64)$")
_PAIR = re.compile(r"([sv])\[(\d+):(\d+)\]")
_COMPARE = re.compile(r"[sv]_cmp[kx]?_(?P<how>lt|le|gt|ge|eq|lg|ne)_[ui](16|32|64)")
_ADD = re.compile(r"[sv]_(?P<way>add|addk|sub|subrev)(_co)?_[ui]32")
_MOVE = re.compile(r"(s_mov|s_movk|v_mov)_[bi](32|64)")
_READS_ONLY = re.compile(r"s_(cmp|bitcmp|c?branch|waitcnt|store)|ds_write|\w+_store_")
_HOW: Mapping[str, Callable[[int, int], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "lg": operator.ne,
    "ne": operator.ne,
}
_MOST_TRIPS = 1 << 20


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its name without the encoding's suffix, and its operands as text."""

    name: str
    operands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """Instructions ``first`` to ``last``, a branch back, by their positions in the code.

    Attributes
    ----------
    trips : int or None
        How often they are executed; None where the counter is not plain.
    """

    first: int
    last: int
    trips: int | None = None

    def holds(self, other: Loop) -> bool:
        """Whether another loop is inside of this one."""
        return self != other and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True)
class Code:
    """The instructions of a kernel in the order of the text.

    Attributes
    ----------
    instructions : tuple of Instruction
    loops : tuple of Loop
        By position; a loop stands before those in it.
    """

    instructions: tuple[Instruction, ...]
    loops: tuple[Loop, ...] = ()

    @cached_property
    def innermost(self) -> tuple[Loop, ...]:
        """Loops without a loop in them."""
        return tuple(a for a in self.loops if not any(a.holds(b) for b in self.loops))

    def around(self, position: int) -> Iterator[Loop]:
        """Yield the loops that an instruction is in."""
        return (loop for loop in self.loops if loop.first <= position <= loop.last)


def parse_code(text: str) -> Code:
    """Return the code between a kernel's label and the end mark of its function."""
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in (whole.partition(";")[0].rstrip() for whole in text.splitlines()):
        if label := _LABEL.match(line):
            labels[label["label"]] = len(found)
        elif match := _INSTRUCTION.match(line):
            operands = tuple(part.strip() for part in match["operands"].split(",") if part.strip())
            found.append(Instruction(_ENCODING.sub("", match["name"]), operands))
    return Code(tuple(found), tuple(_loops(found, labels)))


def _loops(code: Sequence[Instruction], labels: Mapping[str, int]) -> Iterator[Loop]:
    if not code:
        return
    targets = {
        i: labels.get(one.operands[0], len(code))
        for i, one in enumerate(code)
        if one.name.startswith(("s_branch", "s_cbranch")) and one.operands
    }
    starts = sorted({0, *targets.values(), *(i + 1 for i in targets)} - {len(code)})
    dominators = _dominators(code, starts, targets)
    backward: dict[int, int] = {}
    for i, target in targets.items():
        block = bisect_right(starts, i) - 1
        if target <= i and dominators[block] >> starts.index(target) & 1:
            backward[target] = i  # the last branch to a label ends its loop
    for first, last in sorted(backward.items(), key=lambda at: (at[0], -at[1])):
        yield Loop(first, last, _trips(code, first, last))


def _dominators(
    code: Sequence[Instruction], starts: Sequence[int], targets: Mapping[int, int]
) -> list[int]:
    """Return of each block, as bits, the blocks that every way to it goes through."""
    number = {start: block for block, start in enumerate(starts)}
    before: list[list[int]] = [[] for _ in starts]
    for block, end in enumerate((*starts[1:], len(code))):
        last = code[end - 1].name
        if (target := number.get(targets.get(end - 1, -1))) is not None:
            before[target].append(block)
        if last not in ("s_branch", "s_endpgm") and block + 1 < len(starts):
            before[block + 1].append(block)
    found = [1, *((1 << len(starts)) - 1 for _ in starts[1:])]
    changed = True
    while changed:
        changed = False
        for block in range(1, len(starts)):
            common = (1 << len(starts)) - 1 if before[block] else 0
            for other in before[block]:
                common &= found[other]
            common |= 1 << block
            changed |= common != found[block]
            found[block] = common
    return found


def _trips(code: Sequence[Instruction], first: int, last: int) -> int | None:
    """Return how often a loop runs; None where no comparison of a counter decides it."""
    branch = code[last].name
    scalar = branch.startswith("s_cbranch_scc")
    own = "s_cmp" if scalar else "v_cmp"
    for at in range(last - 1, first - 1, -1):
        compare = _COMPARE.match(code[at].name)
        if not code[at].name.startswith(own):
            continue
        if compare is None or len(code[at].operands) < 2:
            return None
        # Where lanes are masked one by one the first outcome goes on.
        ends_if = branch == "s_cbranch_scc0" if scalar else None
        holds, (left, right) = _HOW[compare["how"]], code[at].operands[-2:]
        for counter, bound, compares in (
            (left, right, holds),
            (right, left, lambda value, limit, holds=holds: holds(limit, value)),
        ):
            trips = _counted(code, first, last, at, _low(counter), bound, compares, ends_if)
            if trips is not None:
                return trips
        return None
    return None


def _counted(
    code: Sequence[Instruction],
    first: int,
    last: int,
    at: int,
    counter: str,
    bound: str,
    compares: Callable[[int, int], bool],
    ends_if: bool | None,
) -> int | None:
    """Return after how many iterations the comparison at a position ends a loop.

    ``ends_if`` is the outcome that ends it; None: any but the first.  A counter in a vector
    register is that of a lane that starts at 0.
    """
    step, limit = _step(code, counter, first, last), _constant(code, bound, first)
    value = 0 if counter.startswith("v") else _constant(code, counter, first)
    if step is None or limit is None or value is None:
        return None
    moved, by = step
    value += by if moved < at else 0
    ends = not compares(value, limit) if ends_if is None else ends_if
    for trips in range(1, _MOST_TRIPS):
        if compares(value, limit) is ends:
            return trips
        value += by
    return None


def _step(
    code: Sequence[Instruction], register: str, first: int, last: int
) -> tuple[int, int] | None:
    """Return where in a loop a register is moved and by how much; None if not by a constant."""
    writes = [i for i in range(first, last + 1) if _written(code[i]) == register]
    if not register or len(writes) != 1:
        return None
    one = code[writes[0]]
    if _MOVE.match(one.name):  # of a copy, which was moved
        source = _low(one.operands[1])
        copied = [i for i in range(first, last + 1) if _written(code[i]) == source]
        if len(copied) != 1 or register not in map(_low, code[copied[0]].operands[1:]):
            return None
        one = code[copied[0]]
    match = _ADD.match(one.name)
    values = [v for text in one.operands[1:] if (v := _literal(text, one.name)) is not None]
    if match is None or len(values) != 1:
        return None
    return writes[0], -values[0] if match["way"].startswith("sub") else values[0]


def _written(one: Instruction) -> str:
    """Return the first register that an instruction writes, of those with one or two."""
    return _low(one.operands[0]) if one.operands and not _READS_ONLY.match(one.name) else ""


def _low(operand: str) -> str:
    """Return a register, or the lower one of a pair; empty for everything else."""
    if _REGISTER.fullmatch(operand):
        return operand
    pair = _PAIR.fullmatch(operand)
    return f"{pair[1]}{pair[2]}" if pair and int(pair[3]) == int(pair[2]) + 1 else ""


def _constant(code: Sequence[Instruction], operand: str, before: int) -> int | None:
    """Return the value of an operand: a literal, or what was last moved into its register."""
    if (value := _literal(operand)) is not None:
        return value
    register = _low(operand)
    for one in reversed(code[:before]):
        if register and _written(one) == register:
            return _literal(one.operands[1], one.name) if _MOVE.match(one.name) else None
    return None


def _literal(text: str, name: str = "") -> int | None:
    """Return the number in an operand, with its sign; ``s_addk_i32`` and its kind have 16 bits."""
    try:
        value = int(text, 0)
    except ValueError:
        return None
    bits = 16 if name.startswith(("s_addk", "s_movk")) else 32
    return value - (1 << bits) if 1 << bits - 1 <= value < 1 << bits else value
