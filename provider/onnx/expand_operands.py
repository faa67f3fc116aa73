# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops with axes, sizes or scales that are mostly constants, where they are known at execution.

Often the dims of the result, which the model states, say all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations

from ...graph_api.dtypes import DataType
from .node_writer import Unserved, Writer

__all__ = ["EXPANSIONS", "MAY_BE_EMPTY"]

_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)
_LINEAR = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
"""Those that leave an element alone as it is."""

MAY_BE_EMPTY = frozenset({("", op, 1) for op in _REDUCTIONS})
"""(domain, op, place) of inputs without elements that say something by that."""


def _reduced(w: Writer) -> list[str] | None:
    x, axes = w.input(0), w.input(1)
    if not axes or w.is_constant(axes):
        return None
    dims, out, keep = w.dims(x), w.dims(w.output(0)), w.integer("keepdims", 1)
    rank, (count,) = len(dims), w.dims(axes)

    def along(chosen: Sequence[int]) -> str:
        return w.op(w.node.op, [x, w.shape(chosen)], out, keepdims=keep)

    if not count:
        if not w.integer("noop_with_empty_axes"):
            return [along(range(rank))]
        if w.node.op not in _LINEAR:
            raise Unserved("noop_with_empty_axes", 1, "0 where elements change")
        return [w.op("Identity", [x], dims)]

    def left(chosen: Sequence[int]) -> tuple[int, ...]:
        rest = (1 if k in chosen else d for k, d in enumerate(dims) if keep or k not in chosen)
        return tuple(rest)

    # Which of the dims that are 1 are reduced makes no difference.
    found = {
        tuple(k for k in chosen if dims[k] != 1): chosen
        for chosen in combinations(range(rank), count)
        if left(chosen) == out
    }
    places = list(found.values())
    if not places or (len(places) > 1 and count > 1):
        raise Unserved("axes", "known at execution", "axes that the dims of the result tell")
    y = along(places[0])
    if len(places) > 1:
        at = w.reshape(w.cast(axes, DataType.INT64), ())
        for (place,) in places[1:]:
            for spelled in (place, place - rank):
                same = w.constant([spelled], (), DataType.INT64)
                chosen = w.pointwise("Equal", at, same, DataType.BOOLEAN)
                y = w.op("Where", [chosen, along([place]), y], out, w.type(y))
    return [y]


def _expand(w: Writer) -> list[str] | None:
    if w.is_constant(w.input(1)):
        return None
    return [w.expand(w.input(0), w.dims(w.output(0)))]


def _slice(w: Writer) -> list[str] | None:
    """Gather along each axis; where it ends is what the dims of the result say."""
    if w.node.version < 10 or all(not n or w.is_constant(n) for n in w.node.inputs[1:]):
        return None
    x, whole = w.input(0), DataType.INT64
    dims, out = w.dims(x), w.dims(w.output(0))
    (count,) = w.dims(w.input(1))
    rank = w.constant([len(dims)], (), whole)
    if w.input(3):
        axes = w.cast(w.input(3), whole)
        below = w.pointwise("Less", axes, w.scalar(0, axes), DataType.BOOLEAN)
        counted = w.pointwise("Add", axes, rank)
        axes = w.op("Where", [below, counted, axes], (count,), whole)
    else:
        axes = w.shape(range(count))

    def along(axis: int, value: str, default: int) -> str:
        """Return the entry of an axis, or what stands for one that is not listed."""
        here = w.pointwise("Equal", axes, w.constant([axis], (), whole), DataType.BOOLEAN)
        moved = w.pointwise("Sub", w.cast(value, whole), w.constant([default], (), whole))
        own = w.op("Where", [here, moved, w.constant([0], (), whole)], (count,), whole)
        return w.pointwise("Add", w.reduce("ReduceSum", own, [0], (1,)), w.shape([default]))

    for axis, (before, after) in enumerate(zip(dims, out, strict=True)):
        start = along(axis, w.input(1), 0)
        step = along(axis, w.input(4), 1) if w.input(4) else w.shape([1])
        below = w.pointwise("Less", start, w.shape([0]), DataType.BOOLEAN)
        counted = w.pointwise("Add", start, w.shape([before]))
        start = w.op("Where", [below, counted, start], (1,), whole)
        start = w.pointwise("Min", w.pointwise("Max", start, w.shape([0])), w.shape([before - 1]))
        places = w.pointwise("Mul", w.shape(range(after)), step)
        index = w.pointwise("Add", start, places)
        # What is beyond is asked for by no slice with these dims.
        index = w.pointwise("Min", w.pointwise("Max", index, w.shape([0])), w.shape([before - 1]))
        shape = (*out[: axis + 1], *dims[axis + 1 :])
        x = w.op("Gather", [x, index], shape, w.type(x), axis=axis)
    return [x]


def _dropout(w: Writer) -> list[str] | None:
    """Older versions have no input that asks for training."""
    if w.node.version >= 12:
        return None
    w.unwanted(1)
    return [w.op("Identity", [w.input(0)], w.dims(w.input(0)))]


# ------------------------------------------------------------------------ resize


def _resize(w: Writer) -> list[str] | None:
    """Resize along one axis after the other, by gathers of the entries that are mixed."""
    x, scales, sizes = w.input(0), w.input(2), w.input(3)
    mode = str(w.node.attributes.get("mode", "nearest"))
    if w.node.version < 11 or (w.is_constant(sizes or scales) and mode != "cubic"):
        return None
    w.must_be("antialias", 0)
    if sizes:
        w.must_be("keep_aspect_ratio_policy", "stretch")
    dims, out = w.dims(x), w.dims(w.output(0))
    listed = w.node.attributes.get("axes") or tuple(range(len(dims)))
    assert isinstance(listed, tuple)
    for k, axis in enumerate(int(a) % len(dims) for a in listed):
        before, after = dims[axis], out[axis]
        if before == after == 1 or (sizes and before == after):
            continue
        if sizes:
            scale = w.constant([after / before], (1,), DataType.FLOAT)
        else:
            scale = w.cast(w.slice(scales, 0, k, k + 1), DataType.FLOAT)
        x = _resized(w, x, axis, after, scale, mode)
    return [x]


def _resized(w: Writer, x: str, axis: int, count: int, scale: str, mode: str) -> str:
    last, kind = w.dims(x)[axis] - 1, DataType.FLOAT
    dims = tuple(count if k == axis else d for k, d in enumerate(w.dims(x)))
    where = _coordinates(w, w.dims(x)[axis], count, scale)
    shape = tuple(count if k == axis else 1 for k in range(len(dims)))

    def number(value: float) -> str:
        return w.constant([value], (), kind)

    def taken(places: str) -> str:
        """Return the entries at places, which are clamped to those that there are."""
        low = w.pointwise("Max", places, number(0))
        index = w.cast(w.pointwise("Min", low, number(last)), DataType.INT64)
        return w.op("Gather", [x, index], dims, w.type(x), axis=axis)

    if mode == "nearest":
        rule = str(w.node.attributes.get("nearest_mode", "round_prefer_floor"))
        op, moved = _NEAREST.get(rule, ("", 0.0))
        if not op:
            raise Unserved("nearest_mode", rule, ", ".join(_NEAREST))
        return taken(w.pointwise(op, w.pointwise("Add", where, number(moved))))
    if mode == "linear":
        where = w.pointwise("Min", w.pointwise("Max", where, number(0)), number(last))
    begin = w.pointwise("Floor", where)
    part = w.pointwise("Sub", where, begin)
    terms = [
        (w.pointwise("Add", begin, number(step)), weight)
        for step, weight in _WEIGHTS[mode](w, part)
    ]
    if w.integer("exclude_outside") and mode == "cubic":
        terms = _inside(w, terms, last)
    products = [
        w.pointwise("Mul", taken(places), w.cast(w.reshape(weight, shape), w.type(x)))
        for places, weight in terms
    ]
    return reduce(lambda a, b: w.pointwise("Add", a, b), products)


def _inside(w: Writer, terms: list[tuple[str, str]], last: int) -> list[tuple[str, str]]:
    """Return places and weights with those of places outside 0, and the others adding up to 1."""
    found = []
    for places, weight in terms:
        low = w.pointwise("GreaterOrEqual", places, w.scalar(0, places), DataType.BOOLEAN)
        high = w.pointwise("LessOrEqual", places, w.scalar(last, places), DataType.BOOLEAN)
        inside = w.pointwise("And", low, high, DataType.BOOLEAN)
        kept = w.op("Where", [inside, weight, w.scalar(0, weight)], w.dims(weight), w.type(weight))
        found.append((places, kept))
    total = reduce(lambda a, b: w.pointwise("Add", a, b), [weight for _, weight in found])
    return [(places, w.pointwise("Div", weight, total)) for places, weight in found]


_NEAREST = {
    "round_prefer_floor": ("Ceil", -0.5),
    "round_prefer_ceil": ("Floor", 0.5),
    "floor": ("Floor", 0.0),
    "ceil": ("Ceil", 0.0),
}


def _coordinates(w: Writer, before: int, after: int, scale: str) -> str:
    """Return where each entry of the result is among those of the operand, as floats."""
    kind = DataType.FLOAT

    def number(value: float) -> str:
        return w.constant([value], (), kind)

    def at(shift: float) -> str:
        return w.constant([k + shift for k in range(after)], (after,), kind)

    def centred() -> str:
        return w.pointwise("Sub", w.pointwise("Div", at(0.5), scale), number(0.5))

    mode = str(w.node.attributes.get("coordinate_transformation_mode", "half_pixel"))
    if mode == "pytorch_half_pixel" and after == 1:
        return w.constant([0.0], (1,), kind)
    match mode:
        case "half_pixel" | "pytorch_half_pixel":
            return centred()
        case "asymmetric":
            return w.pointwise("Div", at(0), scale)
        case "align_corners":
            step = (before - 1) / (after - 1) if after > 1 else 0.0
            return w.constant([k * step for k in range(after)], (after,), kind)
        case "half_pixel_symmetric":
            whole = w.pointwise("Mul", scale, number(before))
            adjusted = w.pointwise("Sub", number(1), w.pointwise("Div", number(after), whole))
            return w.pointwise("Add", centred(), w.pointwise("Mul", adjusted, number(before / 2)))
    raise Unserved("coordinate_transformation_mode", mode, "one without a region of interest")


def _linear_weights(w: Writer, part: str) -> list[tuple[int, str]]:
    one = w.constant([1], (), DataType.FLOAT)
    return [(0, w.pointwise("Sub", one, part)), (1, part)]


def _cubic_weights(w: Writer, part: str) -> list[tuple[int, str]]:
    """Return weights of the four entries around: cubic polynomials of the part."""
    a = w.number("cubic_coeff_a", -0.75)
    polynomials = {
        -1: (a, -2 * a, a, 0.0),
        0: (a + 2, -(a + 3), 0.0, 1.0),
        1: (-(a + 2), 2 * a + 3, -a, 0.0),
        2: (-a, a, 0.0, 0.0),
    }
    found = []
    for step, factors in polynomials.items():
        y = w.constant([factors[0]], (), DataType.FLOAT)
        for factor in factors[1:]:  # Horner's rule
            scaled = w.pointwise("Mul", part, y)
            y = w.pointwise("Add", scaled, w.constant([factor], (), DataType.FLOAT))
        found.append((step, y))
    return found


_WEIGHTS = {"linear": _linear_weights, "cubic": _cubic_weights}

EXPANSIONS: dict[tuple[str, str], Callable[[Writer], list[str] | None]] = {
    **{("", op): _reduced for op in _REDUCTIONS},
    ("", "Dropout"): _dropout,
    ("", "Expand"): _expand,
    ("", "Resize"): _resize,
    ("", "Slice"): _slice,
}
"""As of `expand.EXPANSIONS`."""
