# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random valid graphs as data: what is in them, and which dims every tensor must get.

The dims are computed here by counting, not by the formulas under test.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import pytest
from hipdnn_iree.graph_api.enums import PointwiseMode, ReductionMode
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.tensor import Tensor
from hypothesis import strategies as st

Ints = tuple[int, ...]
Draw = Callable[..., Any]

FORWARD = [m for m in PointwiseMode if m.result != "backward" and m is not PointwiseMode.UNSET]
UNARY = [m for m in FORWARD if m.arity == 1]
BINARY = [m for m in FORWARD if m.arity == 2]
REDUCTIONS = [m for m in ReductionMode if m is not ReductionMode.NOT_SET]
FLOAT32 = st.floats(-100, 100, width=32)


@dataclass(frozen=True)
class Value:
    """A tensor of a recipe: a buffer to read, a compile-time scalar, or a node's result."""

    dims: Ints
    strides: Ints | None = None
    data_type: str = "unset"
    scalar: Any = None
    output: bool = False


@dataclass(frozen=True)
class Step:
    """A node of a recipe: a method of Graph, indices of the values it takes, and parameters."""

    method: str
    operands: Ints
    result: int
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """A graph as data; ``build`` makes it, in any order and with any names."""

    types: dict[str, str]
    values: list[Value]
    steps: list[Step]

    def build(
        self,
        *,
        order: random.Random | None = None,
        names: random.Random | None = None,
        kind: type[Graph] = Graph,
    ) -> tuple[Graph, dict[int, Tensor]]:
        """Return the graph and the tensor of each value."""
        g = kind(names.choice("äb c") if names else "", **self.types)
        made: dict[int, Tensor] = {}
        uids = names.sample(range(-(10**12), 10**12), len(self.values)) if names else []

        def source(i: int) -> Tensor:
            value = self.values[i]
            if i not in made and value.scalar is not None:
                made[i] = g.scalar(value.scalar, data_type=value.data_type)
            elif i not in made:
                made[i] = g.tensor(
                    dims=value.dims, strides=value.strides, data_type=value.data_type
                )
            return made[i]

        written = {step.result for step in self.steps}
        waiting = list(self.steps)
        while waiting:
            ready = [s for s in waiting if all(i in made or i not in written for i in s.operands)]
            step = order.choice(ready) if order else ready[0]
            waiting.remove(step)
            operands = [source(i) for i in step.operands]
            name = names.choice(["", "a", "a b", "é"]) if names else ""
            result = getattr(g, step.method)(*operands, name=name, **step.options)
            value = self.values[step.result]
            result.set_data_type(value.data_type)
            if value.strides is not None:
                result.set_stride(value.strides)
            made[step.result] = result.set_output(value.output)
        for i, tensor in made.items():
            if names:
                tensor.set_uid(uids[i]).set_name(names.choice(["", "x", 'x\n"y"', "1"]))
        return g, made


class _Maker:
    """Draws one recipe."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.io = draw(st.sampled_from(["float", "half", "bfloat16", "double", "int8"]))
        self.types = {
            "io_data_type": self.io,
            "compute_data_type": draw(st.sampled_from(["float", "double"]))
            if self.io == "int8" or draw(st.booleans())
            else "unset",
            "intermediate_data_type": draw(st.sampled_from(["unset", "float", "half"])),
        }

    def add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def strides(self, dims: Ints) -> Ints | None:
        """Nothing, or the strides of a random dense permutation."""
        if self.draw(st.booleans()):
            return None
        order = self.draw(st.permutations(range(len(dims))))
        strides = [0] * len(dims)
        for place, axis in enumerate(order):
            strides[axis] = prod(dims[a] for a in order[place + 1 :])
        return tuple(strides)

    def source(self, dims: Ints) -> int:
        strides = self.strides(dims)
        form = self.draw(st.sampled_from(["dense", "dense", "padded", "broadcast"]))
        if strides is not None and form == "padded":
            strides = tuple(3 * s for s in strides)
        elif strides is not None and form == "broadcast":
            axis = self.draw(st.integers(0, len(dims) - 1))
            strides = (*strides[:axis], 0, *strides[axis + 1 :])
        return self.add(Value(dims=dims, strides=strides))

    def dims(self, low: int, high: int) -> Ints:
        return tuple(self.draw(st.lists(st.integers(1, 4), min_size=low, max_size=high)))

    def operand(self, ranks: tuple[int, int]) -> int:
        fitting = [
            i
            for i, v in enumerate(self.values)
            if v.scalar is None and ranks[0] <= len(v.dims) <= ranks[1]
        ]
        if fitting and self.draw(st.integers(0, 3)):
            return self.draw(st.sampled_from(fitting))
        return self.source(self.dims(*ranks))

    def finish(self, method: str, operands: Ints, dims: Ints, **options: Any) -> None:
        if self.draw(st.booleans()):
            options["compute_data_type"] = self.draw(st.sampled_from(["float", "double"]))
        value = Value(
            dims=dims,
            strides=self.strides(dims),
            data_type=self.draw(st.sampled_from(["unset", "float", "half"])),
            output=self.draw(st.booleans()),
        )
        self.steps.append(Step(method, operands, self.add(value), options))

    def pointwise(self) -> None:
        first = self.operand((1, 5))
        dims = self.values[first].dims
        arity = self.draw(st.sampled_from([1, 1, 2, 2, 3]))
        options: dict[str, Any] = {}
        operands = [first]
        if arity == 1:
            mode = self.draw(st.sampled_from(UNARY))
            for name in mode.attrs:
                if name == "axis":
                    options[name] = self.draw(st.integers(0, len(dims) - 1))
                elif name in ("relu_lower_clip", "relu_upper_clip", "softplus_beta"):
                    low = 0.125 if name != "relu_lower_clip" else -3
                    high = 0.0 if name == "relu_lower_clip" else 9
                    options[name] = self.draw(st.none() | st.floats(low, high))
                else:
                    options[name] = self.draw(st.none() | st.floats(-5, 5))
        else:
            mode = self.draw(st.sampled_from(BINARY)) if arity == 2 else PointwiseMode.BINARY_SELECT
            for _ in range(arity - 1):
                kind = self.draw(st.integers(0, 3))
                if kind == 0:
                    data_type = self.draw(st.sampled_from(["float", "half", "double", "int32"]))
                    number = st.integers(-9, 9) if data_type == "int32" else FLOAT32
                    operands.append(
                        self.add(Value(dims=(1,), data_type=data_type, scalar=self.draw(number)))
                    )
                elif kind == 1:
                    operands.append(first)
                else:
                    # A shape that broadcasts to the first one: leading dims left out, others 1.
                    drop = self.draw(st.integers(0, len(dims) - 1))
                    shape = tuple(d if self.draw(st.booleans()) else 1 for d in dims[drop:])
                    operands.append(self.source(shape))
        self.finish("pointwise", tuple(operands), dims, mode=mode, **options)

    def conv_fprop(self) -> None:
        x = self.operand((3, 5))
        n, c, *image = self.values[x].dims
        groups = self.draw(st.sampled_from([g for g in range(1, c + 1) if c % g == 0]))
        k = groups * self.draw(st.integers(1, 3))
        taps, out, pre, post, stride, dilation = [], [], [], [], [], []
        for extent in image:
            a, b = self.draw(st.integers(0, 2)), self.draw(st.integers(0, 2))
            s, d = self.draw(st.integers(1, 3)), self.draw(st.integers(1, 3))
            most = (extent + a + b - 1) // d + 1
            t = self.draw(st.integers(1, min(most, 3)))
            starts = [p for p in range(-a, extent + b, s) if p + d * (t - 1) < extent + b]
            out.append(len(starts))
            for values, value in ((taps, t), (pre, a), (post, b), (stride, s), (dilation, d)):
                values.append(value)
        w = self.source((k, c // groups, *taps))
        self.finish(
            "conv_fprop",
            (x, w),
            (n, k, *out),
            pre_padding=pre,
            post_padding=post,
            stride=stride,
            dilation=dilation,
            conv_mode=self.draw(st.sampled_from(["cross_correlation", "convolution"])),
        )

    def matmul(self) -> None:
        a = self.operand((2, 5))
        *batch, m, k = self.values[a].dims
        n = self.draw(st.integers(1, 4))
        other, out = [], []
        for extent in batch:
            divisors = [f for f in range(1, extent + 1) if extent % f == 0]
            chosen = self.draw(st.sampled_from([*divisors, extent * 2]))
            other.append(chosen)
            out.append(max(extent, chosen))
        self.finish("matmul", (a, self.source((*other, k, n))), (*out, m, n))

    def reduction(self) -> None:
        x = self.operand((1, 5))
        dims = self.values[x].dims
        axes = self.draw(st.sets(st.integers(0, len(dims) - 1), min_size=1))
        out = tuple(1 if i in axes else d for i, d in enumerate(dims))
        given = [a - len(dims) if self.draw(st.booleans()) else a for a in sorted(axes)]
        mode = self.draw(st.sampled_from(REDUCTIONS))
        self.finish("reduction", (x,), out, mode=mode, axes=given)

    def recipe(self, most: int) -> Recipe:
        kinds = [self.pointwise, self.pointwise, self.conv_fprop, self.matmul, self.reduction]
        for _ in range(self.draw(st.integers(1, most))):
            self.draw(st.sampled_from(kinds))()
        last = self.steps[-1].result
        old = self.values[last]
        self.values[last] = Value(
            dims=old.dims, strides=old.strides, data_type=old.data_type, output=True
        )
        return Recipe(self.types, self.values, self.steps)


@pytest.fixture(scope="session")
def recipe() -> Callable[..., Recipe]:
    """``recipe(data.draw)`` draws a valid graph of up to ``most`` nodes, as data."""

    def make(draw: Draw, most: int = 5) -> Recipe:
        return _Maker(draw).recipe(most)

    return make
