# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the four ops of batch normalisation share: dims, rules and fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..dtypes import DataType
from ..errors import Problem
from .base import Ints, Op, Ports
from .fields import Field, Kind

__all__ = ["BN_RULES", "PEER_STATS", "ChannelNorm", "of_one_device", "rules"]

BN_RULES = {
    "BN-01": "x has rank 2 to 5 (N, C, up to three spatial dims)",
    "BN-02": "parameters and statistics have dims (1, C, 1, ...), of x's rank and channels",
    "BN-03": "epsilon and momentum have one element",
    "BN-04": "an epsilon that is part of the graph is finite and not negative",
    "BN-05": "a momentum that is part of the graph is between 0 and 1",
    "BN-06": "next_running_mean needs prev_running_mean and momentum, the variance likewise",
    "BN-07": "peer_stats is empty where a graph is served: statistics are those of one device",
    "BN-08": "mean and inv_variance are given together or not at all",
    "BN-09": "dy has x's dims",
    "BN-10": "the compute type is a floating type",
}


def rules(*numbers: int) -> dict[str, str]:
    """Return the shared rules with these numbers, in order."""
    return {rule: text for rule, text in BN_RULES.items() if int(rule[-2:]) in numbers}


PEER_STATS = Field(name="peer_stats", section="inputs", kind=Kind.TENSORS)


@dataclass(frozen=True, kw_only=True)
class ChannelNorm(Op):
    """The checks that the four ops share.

    Class attributes
    ----------------
    PER_CHANNEL : inputs with dims (1, C, 1, ...).
    """

    PER_CHANNEL: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def channels(t: Ports) -> Ints:
        """Return the dims of a parameter or statistic: (1, C, 1, ...)."""
        x = t.dims("x")
        return (1, x[1], *(1 for _ in x[2:]))

    def check(self, t: Ports) -> Iterator[Problem]:
        if not t.compute.is_float:
            yield t.problem(
                "BN-10",
                "compute_data_type",
                t.compute.json,
                "a floating type",
                'pass compute_data_type="float"',
            )
        x = t.dims("x")
        if not 2 <= len(x) <= 5:
            yield t.problem("BN-01", "x", f"rank {len(x)}", "rank 2, 3, 4 or 5")
            return
        wanted = self.channels(t)
        for port in self.PER_CHANNEL:
            if port in t and t.dims(port) != wanted:
                yield t.problem("BN-02", port, f"dims {list(t.dims(port))}", f"dims {list(wanted)}")
        for port in ("epsilon", "momentum"):
            if port in t and any(n != 1 for n in t.dims(port)):
                yield t.problem("BN-03", port, f"dims {list(t.dims(port))}", "a single element")
        yield from _check_values(t)
        yield from _check_connections(t)


def of_one_device(label: str, ports: Iterable[str]) -> Iterator[Problem]:
    """Yield why a node is not served by engines that do not know of other devices."""
    if "peer_stats[0]" in ports:
        yield Problem(
            rule="BN-07",
            node=label,
            port="peer_stats[0]",
            got="a tensor",
            wanted="no peer_stats",
            hint="statistics over several devices are not part of one graph here",
        )


def _check_values(t: Ports) -> Iterator[Problem]:
    epsilon = t["epsilon"].value if "epsilon" in t else None
    if epsilon is not None and not 0 <= epsilon <= DataType.DOUBLE.largest:
        yield t.problem("BN-04", "epsilon", epsilon, "a finite number of at least 0")
    momentum = t["momentum"].value if "momentum" in t else None
    if momentum is not None and not 0 <= momentum <= 1:
        yield t.problem(
            "BN-05",
            "momentum",
            momentum,
            "a number from 0 to 1",
            "next = (1 - momentum) * previous + momentum * current",
        )


def _check_connections(t: Ports) -> Iterator[Problem]:
    for what in ("mean", "variance"):
        needed = (f"prev_running_{what}", "momentum")
        missing = [p for p in needed if p not in t]
        if f"next_running_{what}" in t and missing:
            yield t.problem(
                "BN-06",
                f"next_running_{what}",
                f"no {' and no '.join(missing)}",
                " and ".join(needed),
            )
    if "dy" in t and t.dims("dy") != t.dims("x"):
        yield t.problem("BN-09", "dy", f"dims {list(t.dims('dy'))}", f"dims {list(t.dims('x'))}")
    if "dy" in t and ("mean" in t) != ("inv_variance" in t):
        given, absent = ("mean", "inv_variance") if "mean" in t else ("inv_variance", "mean")
        yield t.problem(
            "BN-08",
            absent,
            f"nothing beside {given}",
            "both or neither",
            "without them the statistics are computed from x",
        )
