# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What layernorm, rmsnorm and their gradients share: which dims are normalised, and the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..enums import NormFwdPhase
from ..errors import Problem
from .base import Axis, Follows, Ints, Ports

__all__ = [
    "ROWNORM_RULES",
    "aligned",
    "check_dy",
    "check_parameters",
    "check_phase",
    "check_saved",
    "normalised_dims",
    "phase_of",
    "rows_follow",
    "shortest_count",
    "statistics_dims",
]

ROWNORM_RULES: Mapping[str, str] = {
    "ROWNORM-01": "a normalisation has a floating compute type",
    "ROWNORM-02": "some dim is normalised: scale spans it, or normalized_dim_count counts it",
    "ROWNORM-03": "scale and bias have, aligned on the right, x's extents (or 1) in the normalised "
    "dims and 1 in the others",
    "ROWNORM-04": "mean, inv_variance and inv_rms have x's dims with 1 where it is normalised",
    "ROWNORM-05": "epsilon is one number, not negative",
    "ROWNORM-06": "all statistics are written in the phase TRAINING, none in INFERENCE",
    "ROWNORM-07": "dy has x's dims",
    "ROWNORM-08": "layernorm_backward has mean and inv_variance, or neither and an epsilon",
}


def aligned(dims: Ints, rank: int) -> Ints:
    """Return dims with ones in front, up to a rank."""
    return (1,) * (rank - len(dims)) + tuple(dims)


def normalised_dims(x: Ints, scale: Ints, count: int = 0) -> Ints:
    """Return the axes that are normalised: the last ``count``, or those that scale spans."""
    if count > 0:
        return tuple(range(len(x) - count, len(x)))
    return tuple(i for i, n in enumerate(aligned(scale, len(x))) if n != 1)


def rows_follow(at: Axis, count: int = 0) -> Follows:
    """Return ``Op.follows`` of an op that normalises rows."""
    axes = normalised_dims(at.dims["x"], at.dims["scale"], count)
    if at.port in ("scale", "bias", "epsilon") or at.axis in axes:
        return "a dim that is normalised"
    # Gradients of the parameters are sums over all rows.
    return {p: at.axis for p in at.results if p not in ("dscale", "dbias")}


def shortest_count(x: Ints, scale: Ints, count: int) -> int:
    """Return 0 where scale's dims alone determine what is normalised, else ``count``."""
    long = [i for i in normalised_dims(x, scale, count) if x[i] != 1]
    return 0 if long == list(normalised_dims(x, scale)) else count


def statistics_dims(x: Ints, axes: Sequence[int]) -> Ints:
    """Return x's dims with 1 where it is normalised."""
    return tuple(1 if i in axes else n for i, n in enumerate(x))


def phase_of(t: Ports, phase: NormFwdPhase, statistics: Sequence[str]) -> NormFwdPhase:
    """Return the phase; where none is set, it is TRAINING if a statistic is asked for."""
    if phase is not NormFwdPhase.NOT_SET:
        return phase
    training = any(port in t for port in statistics)
    return NormFwdPhase.TRAINING if training else NormFwdPhase.INFERENCE


def check_parameters(
    t: Ports, *, count: int = 0, bias: bool = False, saved: Sequence[str] = ()
) -> Iterator[Problem]:
    """Yield the problems of compute type, normalised dims, scale, bias, statistics, epsilon.

    ``bias``: whether there is one; ``saved``: which statistics are inputs.
    """
    x, scale = t.dims("x"), t.dims("scale")
    if not t.compute.is_float:
        hint = 'pass compute_data_type="float"'
        port = "compute_data_type"
        yield t.problem("ROWNORM-01", port, t.compute.json, "a floating type", hint)
    if not 0 <= count <= len(x):
        wanted = f"1 to {len(x)} of x's trailing dims, or 0 to follow scale's dims"
        yield t.problem("ROWNORM-02", "normalized_dim_count", count, wanted)
        return
    # With a scale that is too long, the dims that it would span mean nothing.
    axes = normalised_dims(x, scale, count) if len(scale) <= len(x) else tuple(range(len(x)))
    if not axes and x[-1] != 1:
        yield t.problem(
            "ROWNORM-02",
            "scale",
            f"dims {list(scale)}",
            f"x's extents ({list(x)}) in the dims to normalise",
            "statistics are taken over the dims that scale spans",
        )
    allowed = tuple(n if i in axes else 1 for i, n in enumerate(x))
    for port in ("scale", "bias") if bias else ("scale",):
        dims = t.dims(port)
        long = len(dims) > len(x)
        if long or any(
            n not in (1, m) for n, m in zip(aligned(dims, len(x)), allowed, strict=True)
        ):
            wanted = f"dims {list(allowed)}; leading dims of extent 1 may be left out"
            yield t.problem("ROWNORM-03", port, f"dims {list(dims)}", wanted)
    for port in saved:
        if t.dims(port) != statistics_dims(x, axes):
            wanted = f"dims {list(statistics_dims(x, axes))}"
            yield t.problem("ROWNORM-04", port, f"dims {list(t.dims(port))}", wanted)
    epsilon = t.given("epsilon")
    if epsilon is not None:
        value = t["epsilon"].value
        if any(n != 1 for n in epsilon):
            yield t.problem("ROWNORM-05", "epsilon", f"dims {list(epsilon)}", "one element")
        elif value is not None and not value >= 0:
            yield t.problem("ROWNORM-05", "epsilon", value, "a number of 0 or more")


def check_phase(t: Ports, phase: NormFwdPhase, statistics: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem unless the statistics are outputs just when the phase asks for them."""
    training = phase is NormFwdPhase.TRAINING
    for port in statistics:
        if (port in t) != training:
            got = f"{'an' if port in t else 'no'} output in {phase.json}"
            hint = "" if training else 'pass forward_phase="training"'
            wanted = f"{'an' if training else 'no'} output {port}"
            yield t.problem("ROWNORM-06", port, got, wanted, hint)


def check_dy(t: Ports) -> Iterator[Problem]:
    """Yield a problem unless dy has x's dims."""
    if t.dims("dy") != t.dims("x"):
        got, wanted = f"dims {list(t.dims('dy'))}", f"x's dims {list(t.dims('x'))}"
        yield t.problem("ROWNORM-07", "dy", got, wanted)


def check_saved(t: Ports) -> Iterator[Problem]:
    """Yield a problem unless the statistics are there, or can be computed again."""
    given = [p for p in ("mean", "inv_variance") if p in t]
    if len(given) == 1:
        yield t.problem(
            "ROWNORM-08", given[0], f"{given[0]} alone", "both mean and inv_variance, or neither"
        )
    elif not given and "epsilon" not in t:
        yield t.problem(
            "ROWNORM-08", "epsilon", "nothing", "an epsilon, as there are no saved statistics"
        )
