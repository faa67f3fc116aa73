# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An output in the memory of an input: where a plan names the pair, and refused elsewhere."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.enums import PointwiseMode
from hipdnn_iree.graph_api.errors import BindError
from hipdnn_iree.jit import bindings
from hipdnn_iree.jit.compiler.tool import tool_path
from hipdnn_iree.jit.options import BuildOptions
from hipdnn_iree.jit.pipeline import flags
from hipdnn_iree.jit.runtime import arrays
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.stages import plan_of
from hipdnn_iree.provider.reference import expect
from hipdnn_iree.provider.reference.inputs import random_inputs
from hipdnn_iree.provider.verify import compare

CHAINS = 24  # by default
SHAPES = ((7,), (3, 5), (33, 17), (1, 129), (2, 3, 5, 7), (2, 19, 13, 1), (1, 8, 16, 16))
TYPES = ("float", "float", "half", "bfloat16", "double", "int32")
FLOATS = (
    "RELU_FWD SIGMOID_FWD TANH_FWD ABS NEG GELU_FWD IDENTITY FLOOR",
    "ADD SUB MUL MAX MIN ADD_SQUARE RELU_BWD TANH_BWD CMP_LT",
)
INTEGERS = ("ABS NEG IDENTITY", "ADD SUB MUL MAX MIN")


def channels_last(dims: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [0] * len(dims), 1
    for axis in (1, *reversed(range(2, len(dims))), 0):
        strides[axis], step = step, step * dims[axis]
    return tuple(strides)


def chain(seed: int) -> Graph:
    """Return pointwise nodes on some tensors: full ones in two layouts, rows, numbers."""
    rng = random.Random(seed)
    dims, kind = rng.choice(SHAPES), rng.choice(TYPES)
    compute = kind if kind in ("double", "int32") else "float"
    graph = Graph(
        f"chain {seed}",
        io_data_type=kind,
        compute_data_type=compute,
        intermediate_data_type=compute,
    )
    layouts: list[dict[str, Any]] = [{}]
    if len(dims) > 2 and rng.random() < 0.5:
        layouts.append({"strides": channels_last(dims)})
    alone, pairs = (text.split() for text in (INTEGERS if compute == "int32" else FLOATS))

    def full() -> Any:
        return graph.tensor(dims=dims, **rng.choice(layouts))

    def operand() -> Any:
        what = rng.random()
        if what < 0.4:
            return rng.choice(values)
        if what < 0.7:
            return full()
        if what < 0.85:
            return graph.tensor(dims=tuple(d if rng.random() < 0.5 else 1 for d in dims))
        return 2 if compute == "int32" else rng.uniform(0.5, 2)

    values = [full()]
    for _ in range(rng.randint(1, 7)):
        what, last = rng.random(), values[-1]
        if what < 0.4:
            made = graph.pointwise(last, mode=PointwiseMode[rng.choice(alone)])
        elif what < 0.9:
            made = graph.pointwise(last, operand(), mode=PointwiseMode[rng.choice(pairs)])
        else:
            mask = graph.pointwise(last, rng.choice(values), mode=PointwiseMode.CMP_GT)
            mask.set_data_type("boolean")
            select = PointwiseMode.BINARY_SELECT
            made = graph.pointwise(mask, last, rng.choice(values), mode=select)
        values.append(made)
    y = values[-1].set_output()
    if strides := rng.choice(layouts).get("strides"):
        y.set_dim(dims).set_stride(strides)
    return graph


class Buffers:
    """A plan's arguments: memory of each one, and a view of that."""

    def __init__(self, plan: Any, seed: int = 0) -> None:
        self.plan = plan
        self.specs = dict(zip(plan.executable.uids, plan.compiled.signature.args, strict=True))
        self.memory = {uid: zeros(spec.nbytes) for uid, spec in self.specs.items()}
        self.views = {uid: arrays.view(self.memory[uid], spec) for uid, spec in self.specs.items()}
        self.values = random_inputs(plan.graph, seed)
        self.fill()

    def fill(self) -> None:
        for uid, value in self.values.items():
            np.copyto(self.views[uid], value)

    def in_place(self, output: int, read: int) -> dict[int, Any]:
        return self.views | {output: arrays.view(self.memory[read], self.specs[output])}


def zeros(nbytes: int) -> Any:
    memory = arrays.aligned_bytes(nbytes)
    memory[:] = 0
    return memory


def ways(plan: Any, buffers: dict[int, Any]) -> list[Callable[[], object]]:
    """Return what executes on buffers, and on their addresses."""
    addresses = {uid: array.ctypes.data for uid, array in buffers.items()}
    return [
        partial(plan.execute, buffers),
        partial(plan.execute, addresses),
        plan.bind(buffers),
        plan.bind(addresses),
        partial(plan.execute_many, [buffers]),
        lambda: plan.execute_async(addresses).wait(),
    ]


@pytest.mark.parametrize(
    "seed",
    [pytest.param(n, marks=[] if n < CHAINS else [pytest.mark.full]) for n in range(40)],
)
def test_random_chains(seed: int) -> None:
    """Bit for bit what the same code gives in memory of its own, which is right."""
    plan: Any = chain(seed).build("cpu", engine="iree")
    buffers = Buffers(plan, seed)
    (uid,) = plan.graph.outputs
    plan.execute(buffers.views)
    report = compare(plan.graph, {uid: buffers.views[uid]}, expect(plan.graph, buffers.values))
    assert report.ok, str(report)
    right = buffers.memory[uid].tobytes()
    for output, read in plan.in_place:
        for call in ways(plan, buffers.in_place(output, read)):
            buffers.fill()
            call()
            assert buffers.memory[read].tobytes() == right
    others = {pair for u in plan.graph.inputs if (pair := (uid, u)) not in plan.in_place}
    for _, read in others:
        shared = {**buffers.views, uid: buffers.memory[read].ctypes.data}
        before = buffers.memory[read].tobytes()
        with pytest.raises(BindError, match="BIND-10"):
            plan.execute(shared)
        assert buffers.memory[read].tobytes() == before


def test_most_chains_have_a_pair() -> None:
    found = [chain(seed).build("cpu", engine="iree").in_place for seed in range(CHAINS)]
    assert sum(map(bool, found)) > CHAINS / 2


def graph_of(kind: str) -> Graph:
    """Return a graph in which no buffer may be shared, though dims and strides are equal."""
    graph = Graph(kind, io_data_type="float", compute_data_type="float")
    x, w = (graph.tensor(dims=(8, 8), name=name) for name in "xw")
    match kind:
        case "product":
            graph.add(graph.matmul(x, w), w).set_output()
        case "rows":
            graph.sub(x, graph.reduction(x, mode="MAX", axes=1)).set_output()
        case "two results":
            graph.mul(graph.relu(x).set_output(), w).set_output()
        case "transposed":
            graph.add(graph.transpose(x, permutation=(1, 0)), x).set_output()
        case "gaps":
            graph.relu(graph.tensor(dims=(8, 8), strides=(16, 1))).set_output()
        case "larger elements":
            graph.relu(x).set_output().set_data_type("half")
        case "other strides":
            graph.relu(x).set_output().set_dim((8, 8)).set_stride((1, 8))
        case "repeated":
            row = graph.tensor(dims=(8, 8), strides=(0, 1))
            graph.add(x, row).set_output().set_dim((8, 8)).set_stride((8, 1))
    return graph


KINDS = (
    *("product", "rows", "two results", "transposed", "gaps", "larger elements"),
    *("other strides", "repeated"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_reads_more_than_the_element_is_refused(kind: str) -> None:
    plan: Any = graph_of(kind).build("cpu", engine="iree")
    buffers = Buffers(plan)
    for output in plan.graph.outputs:
        for read in plan.graph.inputs:
            if (output, read) in plan.in_place:
                assert kind == "repeated", plan.in_place  # of its other input
                continue
            memory = zeros(1024)
            addresses = {uid: array.ctypes.data for uid, array in buffers.views.items()}
            addresses |= dict.fromkeys((output, read), memory.ctypes.data)
            calls = (
                plan.execute,
                plan.bind,
                plan.execute_async,
                lambda given, run=plan.execute_many: run([given]),
            )
            for call in calls:
                with pytest.raises(BindError, match=r"(?s)BIND-10.*plan\.in_place"):
                    call(addresses)
            assert not memory.any()
    assert not buffers.memory[plan.graph.outputs[0]].any()


def test_a_part_of_the_input_is_refused() -> None:
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(64,), uid=1)
    graph.add(x, graph.tensor(dims=(64,), uid=3)).set_output().set_uid(2)
    plan: Any = graph.build("cpu", engine="iree")
    assert set(plan.in_place) == {(2, 1), (2, 3)}
    memory = zeros(1024).view(np.float32)
    for shift in (-16, -1, 1, 16, 63):
        given = dict.fromkeys((1, 3), memory[80:144]) | {2: memory[80 + shift :][:64]}
        with pytest.raises(BindError, match="BIND-10"):
            plan.execute(given)
        with pytest.raises(BindError, match="BIND-10"):
            plan.execute({uid: array.ctypes.data for uid, array in given.items()})
    memory[80:144] = 3
    plan.execute(dict.fromkeys((1, 2, 3), memory[80:144]))  # both inputs and the output
    assert (memory[80:144] == 6).all()
    memory[81:145] = 4
    plan.execute(dict.fromkeys((1, 2, 3), memory[81:145]))  # misaligned: copied
    assert (memory[81:145] == 8).all()
    assert memory[145] == memory[79] == 0


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_one_op_reads_and_writes_by_the_same_map(target: str, tmp_path: Path) -> None:
    """The rule rests on how the compiler fuses: its dispatches for graphs with a pair."""
    seen = 0
    for seed in range(12):
        plan: Any = chain(seed).build(target, engine="iree")
        if not plan.in_place:
            continue
        options = BuildOptions.of(settings()).code
        code = plan_of(plan.graph, plan.target, options)
        text = tmp_path / f"{seed}.mlir"
        text.write_text(bindings.lower_graph(plan.graph, plan.target, code))
        given = flags(plan.graph, plan.target, options, code)
        words = [tool_path(), *given, "--compile-to=flow", str(text)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
        ops = re.findall(r"= linalg\.(\w+)(.*)", done.stdout)
        assert [name for name, _ in ops] == ["generic"], (seed, ops)
        *reads, write = re.findall(r"affine_map<.*?\)>", ops[0][1])
        assert reads.count(write) >= len(plan.in_place), (seed, ops)
        assert "reduction" not in ops[0][1]
        seen += 1
    assert seen > 4
