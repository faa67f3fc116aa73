# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the strategies of forward convolutions of several groups cost on CPUs.

Estimates are made as in `conv_cost`.  Rates are fitted by ``scripts/fit_costs`` to convolutions of
``suites/random.yaml``, with two threads, times two: ``tests/data/strategies/conv_groups_*``.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ...graph_api.ops.conv_fprop import ConvOp
from ..cpu_machine import CpuMachine, cpu_machine
from ..target import Target
from .blocking import BLOCKED
from .conv_cost import ROWS, Conv, Quantities, blocked_of, direct_nhwc_of, numbers, price, rows_of
from .direct_tiles import DIRECT_NHWC

__all__ = ["PER_GROUP", "group_costs", "group_nanoseconds", "group_quantities", "per_group_cost"]

Ints = tuple[int, ...]

PER_GROUP = "per_group"
"""The strategy of a convolution for each group: the best of its estimates, and what is cut out and
joined."""
# Patches of so many times the second cache are near.
_NEAR = 4


def group_quantities(
    target: Target, x: Ints, w: Ints, op: ConvOp, *, last: bool, narrow: bool
) -> dict[str, Quantities]:
    """Return what each strategy does, in numbers; parameters as of `conv_costs`.

    Some of the strategies may not fit.
    """
    groups = x[1] // w[1]
    one = numbers(target, x, (w[0] // groups, *w[1:]), op, last=last, narrow=narrow)
    found = {"direct": _direct(one), BLOCKED: _blocked(target, one, groups)}
    if one.positions > 1 and one.channels > 1:
        turned = one.samples * one.channels * prod(one.padded)
        found[ROWS] = {"turned": turned, **rows_of(one)}
        # Of filters that fill no vector, the results of each place are written apart.
        short = one.samples * prod(one.extents) if one.filters < one.lanes else 0
        if does := direct_nhwc_of(target, one):
            found[DIRECT_NHWC] = {"short rows": short, **does}
    each = {name: {k: groups * n for k, n in does.items()} for name, does in found.items() if does}
    return {name: {"call": 1, **does} for name, does in each.items()}


def _direct(one: Conv) -> Quantities:
    """One op has no vectors of its own; of one position it is a batch of matmuls.

    For three of four such batches of bfloat16 with strides, the compiler had no code on the Xeon.
    """
    if one.positions > 1:
        how = "grouped"
    else:
        how = "in 16 bits" if one.narrow else "by channels" if one.last else "by planes"
        how = f"strided {how}" if one.strided and not one.last else how
    return {how: one.results * one.channels * one.positions}


def _blocked(target: Target, one: Conv, groups: int) -> Quantities:
    near = 4 * groups * one.patches <= _NEAR * cpu_machine(target).l2_bytes
    does = {k: n for k, n in blocked_of(target, one).items() if k not in ("copied", "apart")}
    return {
        **does,
        "groups": 1,
        "near patches" if near else "far patches": one.patches,
        "strided": one.patches if one.strided else 0,
    }


_Rates = Mapping[str, Mapping[str, float]]

# An AMD EPYC of Zen 4; `direct_nhwc` as on the Xeon, in 0.6 of its time as the other strategies.
_AVX512: _Rates = {
    PER_GROUP: {"each": 1.8, "joined": 0.36},
    "direct": {
        "call": 5000, "grouped": 0.45, "by channels": 0.2, "by planes": 0.9,
        "strided by planes": 0.9, "in 16 bits": 1.5, "strided in 16 bits": 1.5,
    },
    BLOCKED: {
        "call": 11000, "groups": 360, "near patches": 0.84, "far patches": 1.8, "strided": 1.2,
        "multiplied": 0.027, "written": 0.16,
    },
    ROWS: {
        "call": 16000, "turned": 1.1, "copied": 0.76, "multiplied": 0.018, "packed": 3.0,
        "columns": 0.3, "written": 1.1,
    },
    DIRECT_NHWC: {
        "call": 12000, "panels": 2000, "copied": 1.4, "packed": 2.2, "multiplied": 0.009,
        "stepped": 0.0049, "written": 1.5,
    },
}  # fmt: skip

# Two cores of Intel Xeons, 150 convolutions, divided by 2.5 as those of one group (`conv_rates`).
_INTEL: _Rates = {
    PER_GROUP: {"each": 0.7, "joined": 0.8},
    "direct": {
        "call": 8000, "grouped": 0.64, "by channels": 0.12, "by planes": 0.2,
        "strided by planes": 0.72, "in 16 bits": 0.16, "strided in 16 bits": 1.5,
    },
    BLOCKED: {
        "call": 7600, "near patches": 0.44, "far patches": 0.72, "strided": 0.56,
        "loose": 0.18, "multiplied": 0.022, "written": 0.19,
    },
    ROWS: {
        "call": 13000, "turned": 0.38, "copied": 0.72, "multiplied": 0.0024, "packed": 1.7,
        "columns": 0.92,
    },
    DIRECT_NHWC: {
        "call": 14000, "panels": 760, "copied": 1.1, "packed": 1.7, "multiplied": 0.0072,
        "short rows": 6.4, "written": 0.64,
    },
}  # fmt: skip

# An AMD EPYC of Zen 3, and code for AVX2 on one of Zen 4: 89 convolutions.
_AVX2: _Rates = {
    PER_GROUP: {"each": 0.68, "joined": 0.38},
    "direct": {
        "call": 30000, "grouped": 1.6, "by channels": 0.23, "by planes": 0.89,
        "strided by planes": 4.0, "in 16 bits": 3.1, "strided in 16 bits": 4.0,
    },
    BLOCKED: {
        "call": 27000, "near patches": 1.2, "far patches": 3.2, "strided": 2.4,
        "loose": 0.26, "multiplied": 0.032, "written": 0.78,
    },
    ROWS: {
        "call": 27000, "turned": 3.8, "copied": 2.1, "multiplied": 0.046, "packed": 1.6,
        "added": 0.62,
    },
    DIRECT_NHWC: {
        "call": 30000, "panels": 5300, "copied": 2.9, "packed": 4.3, "multiplied": 0.043,
        "stepped": 0.036, "written": 0.65,
    },
}  # fmt: skip


def group_nanoseconds(machine: CpuMachine) -> _Rates:
    """Return the rates for a CPU: those of the nearest that was measured."""
    if not machine.has_avx512:
        return _AVX2
    return _INTEL if machine.is_intel else _AVX512


def group_costs(
    target: Target, x: Ints, w: Ints, op: ConvOp, *, last: bool, narrow: bool
) -> dict[str, float]:
    """Return estimates in microseconds on one core; as of `conv_costs`."""
    rates = group_nanoseconds(cpu_machine(target))
    found = group_quantities(target, x, w, op, last=last, narrow=narrow)
    return {name: price(does, rates[name]) for name, does in found.items()}


def per_group_cost(target: Target, each: float, joined: int) -> float:
    """Return the estimate of `PER_GROUP`, in microseconds on one core.

    Parameters
    ----------
    target : Target
        A CPU.
    each : float
        Estimate of all groups' convolutions.
    joined : int
        Elements of the input and the result.
    """
    rates = group_nanoseconds(cpu_machine(target))[PER_GROUP]
    return price({"each": 1e3 * each, "joined": joined}, rates)
