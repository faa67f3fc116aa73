# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The phases of a strided data gradient: elements that meet the same positions of the filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd

from ....graph_api.ops.conv_dgrad import ConvDgrad
from ...emit.builder import Builder, Value

__all__ = ["Phase", "joined", "phases_of"]


@dataclass(frozen=True, slots=True)
class Phase:
    """What the positions of dx with one residue meet in one dim.

    ``count`` filter positions (``first``, ``first + step``...; the step of a single one is 1, as
    the compiler refuses code for a slice with another one), and
    ``dy[start + m + e · dilation]`` at the phase's position m for the e-th of them from the end.
    """

    first: int
    step: int
    count: int
    start: int
    dilation: int


def phases_of(size: Sequence[int], op: ConvDgrad) -> list[list[Phase]]:
    """Return the phases along each dim; ``size``: spatial dims of the filter."""
    dims = zip(size, op.stride, op.pre_padding, op.dilation, op.dx_dims[2:], strict=True)
    return [[_phase(r, k, s, pre, d) for r in range(min(s, n))] for k, s, pre, d, n in dims]


def joined(
    b: Builder,
    op: ConvDgrad,
    phases: Sequence[Sequence[Phase]],
    part: Callable[[Sequence[Phase]], Value],
) -> Value:
    """Return dx, (N, spatial..., C), of what a function makes of a phase along each dim."""
    counts = [len(each) for each in phases]
    parts = {
        residues: part([along[r] for along, r in zip(phases, residues, strict=True)])
        for residues in product(*map(range, counts))
    }
    whole = _interleaved(b, parts, counts)
    for axis, n in enumerate(op.dx_dims[2:], 1):
        whole = b.slice(whole, axis, 0, n)
    return whole


def _phase(residue: int, size: int, stride: int, pre: int, dilation: int) -> Phase:
    """Return what the positions ``i = residue, residue + stride...`` of dx meet in one dim.

    dx[i] sums w[t] · dy[(i + pre - t · dilation) / stride] over the t that divide.
    """
    begin, rest = divmod(residue + pre, stride)
    common = gcd(stride, dilation)
    step = stride // common
    matching = [t for t in range(min(step, size)) if (t * dilation - rest) % stride == 0]
    if not matching:
        return Phase(0, 1, 0, 0, 1)
    first, apart = matching[0], dilation // common
    count = (size - 1 - first) // step + 1
    start = begin - (first * dilation - rest) // stride - (count - 1) * apart
    return Phase(first, step if count > 1 else 1, count, start, apart)


def _interleaved(
    b: Builder, parts: Mapping[tuple[int, ...], Value], strides: Sequence[int]
) -> Value:
    """Return the phases by their residues as one tensor, whose spatial dims begin at 1."""
    for axis in reversed(range(len(strides))):
        parts = {
            residues[:-1]: _in_turns(
                b, [parts[(*residues[:-1], r)] for r in range(strides[axis])], 1 + axis
            )
            for residues in parts
            if not residues[-1]
        }
    return parts[()]


def _in_turns(b: Builder, parts: Sequence[Value], axis: int) -> Value:
    """Return the parts' elements along an axis in turns."""
    if len(parts) == 1:
        return parts[0]
    shape = parts[0].shape
    thin = [b.reshape(p, (*shape[: axis + 1], 1, *shape[axis + 1 :])) for p in parts]
    whole = b.concatenate(thin, axis + 1)
    return b.reshape(whole, (*shape[:axis], shape[axis] * len(parts), *shape[axis + 1 :]))
