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
from .conv_cost import ROWS, Conv, Quantities, blocked_of, numbers, price, rows_of
from .direct_tiles import DIRECT_NHWC
from .group_tiles import group_tiles

__all__ = ["PER_GROUP", "group_costs", "group_nanoseconds", "group_quantities", "per_group_cost"]

Ints = tuple[int, ...]

PER_GROUP = "per_group"
"""The strategy of a convolution for each group: the best of its estimates, and what is cut out and
joined."""
# Of so many filters in a group results are in no vectors.
_FEW = 3
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
    each = {name: {k: groups * n for k, n in does.items()} for name, does in found.items() if does}
    all_groups = {**each, DIRECT_NHWC: _direct_nhwc(target, one, groups)}
    return {name: {"call": 1, **does} for name, does in all_groups.items()}


def _direct_nhwc(target: Target, one: Conv, groups: int) -> Quantities:
    """One kernel of an image that is channels-last, and copied where it has padding."""
    dims = (one.channels, one.filters, one.size, one.extents)
    tiles = group_tiles(target, one.samples, groups, *dims)
    image = one.samples * groups * one.channels
    return {
        "loads": tiles.loads,
        "padded": image * prod(one.padded) if one.padded != one.given else 0,
        "turned": 0 if one.last else image * prod(one.given) + groups * one.results,
        "packed": groups * one.weights,
        "converted": image * prod(one.given) + groups * one.results if one.narrow else 0,
    }


def _direct(one: Conv) -> Quantities:
    """One op has no vectors of its own; of one position it is a batch of matmuls.

    For three of four such batches of bfloat16 with strides, the compiler had no code on the Xeon.
    """
    if one.positions > 1:
        return {"grouped": one.results * one.channels * one.positions}
    how = "in 16 bits" if one.narrow else "by channels" if one.last else "by planes"
    how = f"strided {how}" if one.strided and not one.last else how
    return {
        how: one.results * one.channels,
        "results in 16 bits" if one.narrow else "results": one.results,
        "few filters": one.results if one.filters < _FEW else 0,
    }


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

# An AMD EPYC of Zen 4; `direct_nhwc` as on a Xeon, in 0.6 of its time as the other strategies.
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
        "call": 11000, "loads": 0.16, "padded": 0.41, "turned": 0.66, "packed": 1.6,
        "converted": 0.24,
    },
}  # fmt: skip

# Two cores of Intel Xeons, 270 convolutions, `direct_nhwc` of 119, divided by 2.5 as those of one
# group (`conv_rates`).
_INTEL: _Rates = {
    PER_GROUP: {"each": 1.3, "joined": 0.8},
    "direct": {
        "call": 6000, "grouped": 0.52, "by channels": 0.068, "by planes": 0.06,
        "strided by planes": 0.44, "in 16 bits": 0.12, "strided in 16 bits": 1.5,
        "results": 0.44, "results in 16 bits": 0.84, "few filters": 1.7,
    },
    BLOCKED: {
        "call": 6400, "near patches": 0.42, "far patches": 0.48, "strided": 0.44,
        "loose": 0.25, "multiplied": 0.019, "written": 0.22,
    },
    ROWS: {
        "call": 10400, "turned": 0.36, "copied": 0.76, "multiplied": 0.003, "packed": 1.5,
        "columns": 0.68,
    },
    DIRECT_NHWC: {
        "call": 5600, "loads": 0.11, "padded": 0.28, "turned": 0.44, "packed": 1.1,
        "converted": 0.16,
    },
}  # fmt: skip

# An AMD EPYC of Zen 3, and code for AVX2 on one of Zen 4: 89 convolutions.  `direct_nhwc` as on a
# Xeon.
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
        "call": 27000, "loads": 0.25, "padded": 1.0, "turned": 1.5, "packed": 3.0,
        "converted": 0.8,
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
