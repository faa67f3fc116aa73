# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which ops of a function become regions: those of the table, grouped so that they fuse.

Ops that belong together in any case are an atom: those joined by values that are no tensors of
hipDNN, such as quantised ones, and, if asked for, all ops of one source node.  An atom is claimed
when its graph can be built and an engine serves it.  Atoms are then merged, by the families of
their ops, as long as no region would need its own result: there must be no path from one of two
regions to the other through a third.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...graph_api.errors import Problem
from .aten import ATEN
from .aten.call import Family
from .program import Function, Op, Remark
from .region import CannotBuild

__all__ = ["Group", "Partition", "leftovers", "partition"]

Check = Callable[[Function], None]
"""Raises `CannotBuild` for a part of the function that is no region."""

_LARGEST = 256  # ops of a region: compile times grow faster than their number


@dataclass(eq=False)
class Group:
    """Ops that are taken together; ``ops`` in order."""

    ops: list[Op]
    claimed: bool = True
    after: set[Group] = field(default_factory=set)
    before: set[Group] = field(default_factory=set)

    @property
    def first(self) -> int:
        """Place of the first op."""
        return self.ops[0].place

    @property
    def families(self) -> set[str]:
        """What its ops are."""
        return {ATEN[op.name].family for op in self.ops if op.name in ATEN}


@dataclass(frozen=True)
class Partition:
    """The regions of a function, in order, and why other ops are in none."""

    regions: tuple[tuple[Op, ...], ...]
    remarks: tuple[Remark, ...]


def partition(
    function: Function, check: Check, *, whole_nodes: bool = False, min_ops: int = 1
) -> Partition:
    """Return the regions of a function.

    Parameters
    ----------
    check : callable
        Raises `CannotBuild` for a part that no engine serves or that has no graph.
    whole_nodes : bool
        Whether ops of the same location are taken together or not at all.
    min_ops : int
        Regions with fewer ops stay as they are.
    """
    remarks: dict[int, Remark] = {}

    def decline(ops: Iterable[Op], problem: Problem, guilty: Op | None = None) -> None:
        for op in ops:
            reason = problem
            if guilty is not None and op is not guilty:
                got = f"{guilty.name} of the same node, which is declined by {problem.rule}"
                reason = Problem(rule="OFFLOAD-01", got=got, wanted="all ops of the node")
            remarks[op.place] = Remark(
                op=op.name, location=op.location, problem=reason, function=function.name
            )

    groups, users = _atoms(function, whole_nodes), function.users()
    for group in groups:
        if all(_is_ours(op) for op in group.ops):
            group.claimed = False
            continue
        problem = _refused(function, group, check, users)
        if problem is not None:
            group.claimed = False
            decline(group.ops, problem.problem, problem.op)
    groups = _merged(groups, _joins)
    found = []
    for group in groups:
        if not group.claimed:
            continue
        parts = [group.ops]
        if len(group.ops) > 1 and _refused(function, group, check, users) is not None:
            parts = [atom.ops for atom in _atoms(function, whole_nodes) if atom.ops[0] in group.ops]
        for ops in parts:
            if len(ops) < min_ops:
                wanted = f"at least {min_ops}"
                decline(ops, Problem(rule="OFFLOAD-03", got=f"{len(ops)} ops", wanted=wanted))
            else:
                found.append(tuple(ops))
    ordered = tuple(remarks[place] for place in sorted(remarks))
    return Partition(tuple(sorted(found, key=lambda ops: ops[-1].place)), ordered)


def leftovers(function: Function) -> tuple[tuple[Op, ...], ...]:
    """Return the ops that are in no region, grouped as one function each."""
    groups = _atoms(function, False)
    for group in groups:
        group.claimed = not any(_is_ours(op) for op in group.ops)
    merged = _merged(groups, lambda group, other: True)
    return tuple(tuple(group.ops) for group in merged if group.claimed)


def _is_ours(op: Op) -> bool:
    return op.name.startswith("hipdnn.")


def _refused(
    function: Function, group: Group, check: Check, users: Mapping[int, Sequence[Op]]
) -> CannotBuild | None:
    for op in group.ops:
        if op.name not in ATEN:
            wanted = "an op that has a form as a hipDNN graph"
            return CannotBuild(op, Problem(rule="ATEN-01", got=op.name, wanted=wanted))
    try:
        check(function.part(function.name, group.ops, users))
    except CannotBuild as error:
        return error
    return None


def _atoms(function: Function, whole_nodes: bool) -> list[Group]:
    """Return ops that are taken together in any case, with their edges."""
    leader: dict[int, int] = {op.place: op.place for op in function.ops}

    def root(place: int) -> int:
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    makers = function.makers()
    nodes: dict[str, int] = {}
    for op in function.ops:
        for value in op.reads:
            maker = makers.get(value)
            if maker is not None and function.values[value].type is None and not _is_ours(maker):
                leader[root(op.place)] = root(maker.place)
        if whole_nodes and op.location and not _is_ours(op):
            first = nodes.setdefault(op.location, op.place)
            leader[root(op.place)] = root(first)
    groups: dict[int, Group] = {}
    for op in function.ops:
        groups.setdefault(root(op.place), Group([])).ops.append(op)
    of = {op.place: groups[root(op.place)] for op in function.ops}
    for op in function.ops:
        for value in op.reads:
            maker = makers.get(value)
            if maker is not None and of[maker.place] is not of[op.place]:
                of[op.place].before.add(of[maker.place])
                of[maker.place].after.add(of[op.place])
    return sorted(groups.values(), key=lambda group: group.ops[-1].place)


def _merged(groups: Sequence[Group], joins: Callable[[Group, Group], bool]) -> list[Group]:
    """Return the groups after merging those that join; each is visited once, in order."""
    alive = dict.fromkeys(groups)
    for group in groups:
        if not group.claimed:
            continue
        here = group
        # The latest maker of an operand first: what it makes is still at hand.
        for other in sorted(here.before, key=lambda g: g.ops[-1].place, reverse=True):
            if other not in here.before or not other.claimed:
                continue
            if len(here.ops) + len(other.ops) > _LARGEST or not joins(here, other):
                continue
            if not _path_around(other, here):
                _absorb(here, other)
                del alive[other]
    return _acyclic(list(alive))


def _joins(group: Group, maker: Group) -> bool:
    """Whether a group may share a region with one that makes an operand of it."""
    heavy = {Family.MATMUL, Family.ROW, Family.WINDOW}
    mine, theirs = group.families & heavy, maker.families & heavy
    if not mine or not theirs:
        return True
    # Attention by its parts: softmax behind a matmul, and a matmul behind softmax.
    if mine == {Family.ROW} and theirs == {Family.MATMUL}:
        return _is_softmax(group.ops[-1]) and _feeds_only(maker, group)
    if mine == {Family.MATMUL} and theirs == {Family.MATMUL, Family.ROW}:
        last = [op for op in maker.ops if op.name in ATEN and ATEN[op.name].family in heavy][-1]
        return _is_softmax(last) and _feeds_only(maker, group)
    return False


def _is_softmax(op: Op) -> bool:
    return op.name in ("aten.softmax.int", "aten._softmax")


def _feeds_only(maker: Group, group: Group) -> bool:
    return maker.after == {group}


def _path_around(start: Group, end: Group) -> bool:
    """Whether a path leads from one group to another through a third."""
    last = end.ops[-1].place
    stack = [group for group in start.after if group is not end]
    seen = set(stack)
    while stack:
        for group in stack.pop().after:
            if group is end:
                return True
            if group not in seen and group is not start and group.first < last:
                seen.add(group)
                stack.append(group)
    return False


def _absorb(group: Group, other: Group) -> None:
    """Move a group's ops and edges to another one."""
    group.ops = sorted([*other.ops, *group.ops], key=lambda op: op.place)
    for before in other.before:
        before.after.discard(other)
        if before is not group:
            before.after.add(group)
            group.before.add(before)
    for after in other.after:
        after.before.discard(other)
        if after is not group:
            after.before.add(group)
            group.after.add(after)
    group.before.discard(other)
    group.after.discard(other)


def _acyclic(groups: list[Group]) -> list[Group]:
    """Return the groups; those on a cycle, which no order can serve, are claimed no more."""
    open_ = {group: set(group.before) for group in groups}
    ready = [group for group, needs in open_.items() if not needs]
    while ready:
        group = ready.pop()
        del open_[group]
        for after in group.after:
            needs = open_.get(after)
            if needs is not None:
                needs.discard(group)
                if not needs:
                    ready.append(after)
    for group in open_:
        group.claimed = False
    return groups
