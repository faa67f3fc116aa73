# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The buffers that a caller gives for one execution, described and checked together."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from ...graph_api.errors import Problem
from ..signature import ArgSpec
from .binding_rules import Range, judge, judge_workspace, missing, overlaps, refusal, unknown
from .caller_memory import BufferLike, CallerMemory, describe
from .device import Device
from .interleaved import places
from .scalars import Reader, describe_scalar

__all__ = ["Argument", "BufferSet"]


class Argument(NamedTuple):
    """An output or input of a graph: its uid, its name for error texts, and what it must be."""

    uid: int
    label: str
    spec: ArgSpec


class BufferSet:
    """What is known of the buffers; `check` says whether they can be used.

    Parameters
    ----------
    arguments : iterable of Argument
        Every output and input; kept as an attribute, as are the buffers.
    buffers : mapping of int to BufferLike
        By uid.
    workspace : BufferLike, optional

    Attributes
    ----------
    memory : dict
        `CallerMemory` by uid, in the order of the arguments; that of the workspace is last, under
        ``"workspace"``.
    readers : dict
        How to read each scalar that the host passes, by uid.
    owners : list
        What owns the memory, to be kept for as long as it is used.
    problems : list of Problem
        Broken rules that the descriptions alone show.
    """

    __slots__ = ("arguments", "buffers", "memory", "owners", "problems", "readers")

    def __init__(
        self,
        arguments: Iterable[Argument],
        buffers: Mapping[int, BufferLike],
        workspace: BufferLike | None = None,
    ) -> None:
        self.arguments, self.buffers = arguments, buffers
        self.memory: dict[int | str, CallerMemory] = {}
        self.readers: dict[int, Reader] = {}
        self.owners: list[object] = []
        self.problems: list[Problem] = []
        used = 0
        for uid, label, spec in arguments:
            if uid not in buffers:
                self.problems.append(missing(spec, uid, label))
                continue
            used += 1
            if not spec.scalar:
                self._describe(uid, buffers[uid], label)
                continue
            scalar = describe_scalar(buffers[uid], spec, label)
            if isinstance(scalar, list):
                self.problems += scalar
            else:
                self.readers[uid], owner = scalar
                self.owners.append(owner)
        if len(buffers) > used:
            self.problems += unknown(buffers.keys() - {argument.uid for argument in arguments})
        if workspace is not None:
            self._describe("workspace", workspace, "workspace")
            given = self.memory.get("workspace")
            if given is not None and not given.address and given.dims is None:
                del self.memory["workspace"]  # a null pointer, as C hosts pass for none

    def _describe(self, key: int | str, buffer: BufferLike, label: str) -> None:
        found = describe(buffer, label)
        if isinstance(found, Problem):
            self.problems.append(found)
        else:
            self.memory[key], owner = found
            self.owners.append(owner)

    def check(
        self,
        device: Device,
        *,
        workspace_bytes: int = 0,
        copy: bool = False,
        in_place: Container[tuple[int | None, int | None]] = (),
    ) -> None:
        """Raise `BindError` with every rule that is broken.

        Parameters
        ----------
        device : Device
            Where the buffers will be used; it need not be open.
        workspace_bytes : int
            What a workspace must hold.
        copy : bool
            Whether buffers in other strides, or in host memory for a GPU, may be copied.
        in_place : container of (output, input)
            What may be one buffer.
        """
        problems = list(self.problems)
        ranges: list[Range] = []
        for uid, label, spec in self.arguments:
            memory = self.memory.get(uid)
            if memory is not None:
                problems += judge(spec, memory, label, device, copy)
                bounds, lie = memory.bounds(spec.nbytes), places(spec, memory)
                ranges.append(Range(label, spec.output, *bounds, uid, lie))
        workspace = self.memory.get("workspace")
        if workspace is not None:
            problems += judge_workspace(workspace, workspace_bytes, device)
            size = workspace.size or workspace_bytes
            ranges.append(Range("workspace", True, *workspace.bounds(size)))
        problems = problems or list(overlaps(ranges, in_place))
        if problems:
            raise refusal(problems)
