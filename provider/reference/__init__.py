# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What graphs mean, independent of every compiler: float64 (and exact integers) in NumPy.

One file per op says what the op computes, how far a correct result in the compute type may be
off, and which operands suit it.  ``execute`` evaluates a graph; ``expect`` also carries the error
bounds along and says between which two values each element of a correct result lies.  ``convert``
defines loads and stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.errors import Decline, NotSupportedError, Problem
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops import OPS
from ...graph_api.tensor import TensorSpec
from .analysis import flushed_factor, rounding, started_from
from .base import Arrays, Context, Domain, Reference
from .convert import Array, numpy_dtype, scalar, smallest, to_dtype, widen

if TYPE_CHECKING:
    from ...jit.target import Target

__all__ = [
    "RULES",
    "Context",
    "Domain",
    "Expected",
    "Reference",
    "context",
    "execute",
    "expect",
    "numpy_dtype",
    "reference",
    "to_dtype",
    "unsupported",
]

RULES: dict[str, str] = {
    "REF-01": "the op, with its mode, has a float64 reference",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What a correct engine may return, by uid of each output, with logical dims.

    Attributes
    ----------
    values : mapping of uid to ndarray
        The reference result: float64, or int64 for integers and BOOLEAN.
    low, high : mapping of uid to ndarray
        Smallest and largest correct value, both rounded to the output's type; an infinity where
        that is NaN, as in FP8 types without infinities: NaN is correct there too.
    errors : mapping of uid to ndarray
        How far a correct value may be off before it is rounded to that type; may have fewer dims.
    overflowing : frozenset of uid
        Outputs of a value that is too large for its tensor's or a compute type.  Where such an
        output has no bounds, NaN is correct too: an engine that rounds the value has an infinity
        there, and ``inf - inf`` behind it.
    """

    values: Mapping[int, Array]
    low: Mapping[int, Array]
    high: Mapping[int, Array]
    errors: Mapping[int, Array]
    overflowing: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Value:
    """A tensor as its consumers see it.

    ``error`` bounds how far a correct engine is off; ``overflows`` says whether one that rounds
    intermediates may have met an infinity.
    """

    array: Array
    error: Array
    overflows: bool = False


_NO_ERROR = np.zeros(())


@cache
def reference(op_name: str) -> Reference | None:
    """Return the reference of an op (``Op.NAME``), or None for a name that is no op's."""
    if op_name not in OPS:
        return None
    found = import_module(f".{op_name}", __name__).REFERENCE
    assert isinstance(found, Reference)
    return found


def unsupported(frozen: FrozenGraph) -> list[Problem]:
    """Return why the graph cannot be evaluated; empty when it can."""
    problems: list[Problem] = []
    for node in frozen.nodes:
        ref = reference(node.op.NAME)
        why = ref.unsupported(node.op) if ref else f"op {node.op.NAME} has no reference"
        problems += ref.declines(node.label, node.inputs) if ref else ()
        if why:
            wanted = "an op and mode that provider/reference knows"
            problems.append(Problem(rule="REF-01", node=node.label, got=why, wanted=wanted))
    return problems


def context(frozen: FrozenGraph, node: FrozenNode, *, flushes_products: bool = False) -> Context:
    """Return compute type and tensors around a node."""
    return Context(
        flushes_products=flushes_products,
        compute=node.compute_data_type,
        inputs={port: frozen.tensors[uid] for port, uid in node.inputs.items()},
        outputs={port: frozen.tensors[uid] for port, uid in node.outputs.items()},
    )


def execute(frozen: FrozenGraph, arrays: Mapping[int, Array]) -> dict[int, Array]:
    """Evaluate a graph.

    Parameters
    ----------
    frozen : FrozenGraph
    arrays : mapping of uid to ndarray
        Every input in its own data type, with its logical dims.

    Returns
    -------
    dict of int to ndarray
        Every output with its logical dims: float64, not yet rounded to the output's type, or
        int64 after the conversion to an integer type or BOOLEAN.  ``to_dtype`` does the rest.

    Raises
    ------
    NotSupportedError
        For an op or mode without a reference.
    KeyError, ValueError
        For an input that is missing or has other dims.
    """
    results = dict(_results(frozen, arrays, bounded=False))
    return {uid: _rounded(results[uid], frozen.spec(uid).data_type) for uid in frozen.outputs}


def _rounded(value: _Value, data_type: DataType) -> Array:
    return _stored(value, data_type, bounded=False).array


def expect(
    frozen: FrozenGraph,
    arrays: Mapping[int, Array],
    target: Target | None = None,
    *,
    thrifty: bool = False,
) -> Expected:
    """Evaluate a graph and bound the error of a correct engine.

    Parameters
    ----------
    frozen, arrays
        As for ``execute``.
    target : Target, optional
        What the engine's code is for.  Matrix instructions of the MI200 (gfx90a) take subnormal
        halves and bfloat16 for 0 (`Target.flushes_products`); by default nobody's do.
    thrifty : bool
        Whether the bounds of products and attention may cost no more than their values.  Most
        are larger than they need be, by a factor of 1.3 for random operands of a product; those
        of a sample of features are not.

    A correct engine reads every input exactly (but subnormal numbers of float32, bfloat16 and
    float64 as themselves or as 0), computes each node in its compute type (with any
    order of summation, with or without fused multiply-add; what is added to a sum of products
    may be its first term), may or may not round intermediate floats to their tensor's type, and
    rounds the result once.
    """
    values, low, high, errors = {}, {}, {}, {}
    overflowing = set()
    flushes = target is not None and target.flushes_products
    for uid, value in _results(frozen, arrays, bounded=True, flushes=flushes, thrifty=thrifty):
        if uid in frozen.outputs:
            spec = frozen.spec(uid)
            values[uid] = _rounded(value, spec.data_type)
            low[uid], high[uid] = _ends(value, spec.data_type)
            errors[uid] = value.error
            if value.overflows:
                overflowing.add(uid)
    order = frozen.outputs
    return Expected(
        values={uid: values[uid] for uid in order},
        low={uid: low[uid] for uid in order},
        high={uid: high[uid] for uid in order},
        errors={uid: errors[uid] for uid in order},
        overflowing=frozenset(overflowing),
    )


def _results(
    frozen: FrozenGraph,
    arrays: Mapping[int, Array],
    *,
    bounded: bool,
    flushes: bool = False,
    thrifty: bool = False,
) -> Iterator[tuple[int, _Value]]:
    """Yield uid and value of every node's results, before they are stored in their type."""
    problems = unsupported(frozen)
    if problems:
        declines = [Decline(engine="reference", problem=p) for p in problems]
        raise NotSupportedError("the reference does not know the whole graph", declines)
    seen: dict[int, _Value] = {}
    for uid, spec in frozen.tensors.items():
        if spec.value is not None:
            seen[uid] = _Value(scalar(spec.value, spec.data_type), _NO_ERROR)
        elif uid in frozen.inputs:
            given = _given(arrays[uid], spec)
            seen[uid] = _Value(given, _flushed(given, spec.data_type) if bounded else _NO_ERROR)
    read = {uid for node in frozen.nodes for uid in node.inputs.values()}
    products: dict[int, int] = {}
    with np.errstate(all="ignore"):
        for node in frozen.nodes:
            ctx = context(frozen, node, flushes_products=flushes)
            found = _run(frozen, node, ctx, seen, bounded=bounded, thrifty=thrifty)
            if bounded:
                found = _summed(node, ctx, found, seen, products)
            for port, value in found.items():
                uid = node.outputs[port]
                if uid in read:
                    seen[uid] = _stored(value, frozen.spec(uid).data_type, bounded=bounded)
                yield uid, value


def _given(array: Array, spec: TensorSpec) -> Array:
    if tuple(array.shape) != spec.dims:
        raise ValueError(f"{spec.label} has dims {tuple(array.shape)}, the graph has {spec.dims}")
    return widen(array, spec.data_type)


def _flushed(array: Array, data_type: DataType) -> Array:
    """Return how far inputs are off where an engine reads subnormal numbers as 0."""
    if not data_type.is_float:
        return _NO_ERROR
    size = np.abs(array)
    subnormal = (size > 0) & (size < smallest(data_type))
    return np.where(subnormal, size, 0.0) if subnormal.any() else _NO_ERROR


def _run(
    frozen: FrozenGraph,
    node: FrozenNode,
    ctx: Context,
    seen: Mapping[int, _Value],
    *,
    bounded: bool,
    thrifty: bool,
) -> dict[str, _Value]:
    ref = reference(node.op.NAME)
    assert ref is not None
    exact = ref.exact_ports(node.op, ctx)
    loaded = {
        port: seen[uid]
        if port in exact
        else _loaded(seen[uid], frozen.spec(uid).data_type, ctx.compute, bounded=bounded)
        for port, uid in node.inputs.items()
    }
    inputs: Arrays = {port: v.array for port, v in loaded.items()}
    outputs = ref.evaluate(node.op, inputs, ctx)
    if not bounded:
        return {port: _Value(array, _NO_ERROR) for port, array in outputs.items()}
    errors = {port: v.error for port, v in loaded.items()}
    for port in ref.multiplied if ctx.flushes_products else ():
        kind = ctx.inputs[port].data_type
        errors[port] = errors[port] + flushed_factor(inputs[port], errors[port], kind, ctx)
    bound = (ref.thrifty if thrifty else None) or ref.bound
    bounds = bound(node.op, inputs, errors, outputs, ctx)
    overflows = any(value.overflows for value in loaded.values())
    settled = {port: _settled(array, bounds[port]) for port, array in outputs.items()}
    if ref.leaves_type:
        overflows = overflows or any(np.isinf(error).any() for error in settled.values())
    return {port: _Value(a, settled[port], overflows) for port, a in outputs.items()}


def _summed(
    node: FrozenNode,
    ctx: Context,
    found: dict[str, _Value],
    seen: Mapping[int, _Value],
    products: dict[int, int],
) -> dict[str, _Value]:
    """Return results whose errors allow that sums of products start from what is added to them.

    ``products``: of how many products a tensor is the sum, by uid; the node's result joins it.
    """
    ref = reference(node.op.NAME)
    assert ref is not None
    for uid in node.outputs.values():
        products[uid] = ref.products(node.op, ctx)
    sums = {port: n for port, uid in node.inputs.items() if (n := products.get(uid, 0))}
    if not (sums and ref.adds(node.op) and ctx.compute.is_float):
        return found
    ((result, value),) = found.items()
    products[node.outputs[result]] = sum(sums.values())
    error = value.error
    for port, n in sums.items():
        for other, uid in node.inputs.items():
            if other != port:
                start, own = seen[uid], seen[node.inputs[port]].error
                error = error + started_from(start.array, start.error, own, n, ctx)
    return {result: _Value(value.array, _settled(value.array, error), value.overflows)}


def _settled(array: Array, error: Array) -> Array:
    """Return a bound without NaN: a result that is not finite is known as it is."""
    error = np.where(np.isnan(error), np.inf, error)
    return np.where(np.isfinite(array), error, 0.0) if array.dtype.kind == "f" else error


def _loaded(value: _Value, stored: DataType, compute: DataType, *, bounded: bool) -> _Value:
    """Convert a stored tensor to the compute type."""
    if not compute.is_float:
        return value if compute.holds(stored) else _converted(value, compute)
    if compute.holds(stored) or not bounded:
        return _Value(value.array.astype(np.float64), value.error, value.overflows)
    # The value stays as it is; that an engine rounds it counts as an error.
    return _perhaps_rounded(value, compute)


def _perhaps_rounded(value: _Value, data_type: DataType) -> _Value:
    array = value.array.astype(np.float64)
    rounded = rounding(array, value.error, data_type)
    overflows = value.overflows or bool(np.any(np.isinf(rounded) & np.isfinite(value.error)))
    return _Value(array, _settled(array, value.error + rounded), overflows)


def _stored(value: _Value, data_type: DataType, *, bounded: bool) -> _Value:
    """Return what consumers of a result see: integers are converted, floats keep all digits."""
    if not data_type.is_float:
        return _converted(value, data_type)
    if not bounded:
        return _Value(value.array.astype(np.float64), _NO_ERROR)
    return _perhaps_rounded(value, data_type)


def _converted(value: _Value, data_type: DataType) -> _Value:
    """Convert to an integer type or BOOLEAN, in which a small error may become a step or none."""
    array = widen(to_dtype(value.array, data_type), data_type)
    if not value.error.any():
        return _Value(array, _NO_ERROR, value.overflows)
    low, high = _ends(value, data_type)
    center = array.astype(np.float64)
    return _Value(array, np.maximum(high - center, center - low), value.overflows)


def _end(value: Array, data_type: DataType) -> Array:
    """Convert an end; what is too large for a type without infinities is an infinity, not NaN."""
    end = widen(to_dtype(value, data_type), data_type)
    return np.where(np.isnan(end) & ~np.isnan(value), np.copysign(np.inf, value), end)


def _ends(value: _Value, data_type: DataType) -> tuple[Array, Array]:
    """Return the smallest and largest correct value, as the type holds them, widened."""
    array, error = value.array, value.error
    if data_type.is_bool:
        true = array != 0
        unsure = (np.abs(array) <= error) & (error > 0)
        return (true & ~unsure).astype(np.int64), (true | unsure).astype(np.int64)
    if not error.any():
        low = high = widen(to_dtype(array, data_type), data_type)
    else:
        # All conversions are monotone, so the ends stay the ends.
        ends = (array.astype(np.float64) - error, array.astype(np.float64) + error)
        low, high = (_end(end, data_type) for end in ends)
    if not data_type.is_float:
        return low, high
    # What is not larger than the smallest normal number may have become 0.
    least = smallest(data_type)
    tiny_low, tiny_high = (low > 0) & (low <= least), (high < 0) & (high >= -least)
    return np.where(tiny_low, 0.0, low), np.where(tiny_high, 0.0, high)
