# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Outputs with gaps in their strides: served in place, and what lies between stays as it is."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import under_settings
from fresh_python import printed
from here_and_now import engine
from hipdnn_iree import Graph, save_artifact
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.pipeline import signature_of
from hipdnn_iree.jit.runtime.arrays import unpack
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import expect
from hipdnn_iree.provider.sweep.gaps import RedZones, with_gaps
from hipdnn_iree.provider.sweep.samples import sample_problems
from hipdnn_iree.provider.sweep.suite import Case
from together import together

CPU = Target.parse("cpu")
PER_OP = 4
BY_DEFAULT = 2  # of each op
TOGETHER = 12


def samples() -> dict[str, list[tuple[Case, DataType]]]:
    """Return a few problems of each op, in data types that differ."""
    by_op: dict[str, list[tuple[Case, DataType]]] = defaultdict(list)
    for sample in sorted(sample_problems(), key=lambda s: crc32(s.name.encode())):
        found = by_op[sample.name.partition(".")[0]]
        if len(found) < PER_OP:
            found.append((sample, sample.dtypes[len(found) % len(sample.dtypes)]))
    return by_op


def run(graph: FrozenGraph, inputs: dict[int, Any], name: str = "iree", off: int = 0) -> list[str]:
    """Execute a graph on memory with red zones; return what is wrong."""
    served = engine(name)
    assert not served.declines(graph, CPU)
    arguments = signature_of(graph).args[: len(graph.outputs)]
    zones = {
        uid: RedZones(spec, uid, off) for uid, spec in zip(graph.outputs, arguments, strict=True)
    }
    outputs = {uid: zone.array for uid, zone in zones.items()}
    served.build(graph, CPU).execute({**inputs, **outputs})
    return [
        f"{graph.tensors[uid].label}: byte {at}"
        for uid, zone in zones.items()
        for at in zone.touched()
    ] + _wrong(graph, inputs, zones)


def _wrong(graph: FrozenGraph, inputs: dict[int, Any], zones: dict[int, RedZones]) -> list[str]:
    results = {uid: unpack(zone.spec, zone.array) for uid, zone in zones.items()}
    report = verify.compare(graph, results, expect(graph, inputs))
    return [] if report.ok else [str(report)]


Seeded = tuple[int, Case, DataType]


def packs() -> Iterator[Any]:
    """Yield what is compiled together: of each op two problems, and with ``--full`` two more."""
    for start, marks in ((0, []), (BY_DEFAULT, [pytest.mark.full])):
        found = [
            (seed, *sample)
            for _, known in sorted(samples().items())
            for seed, sample in enumerate(known)
            if start <= seed < start + BY_DEFAULT
        ]
        for at in range(0, len(found), TOGETHER):
            pack = found[at : at + TOGETHER]
            yield pytest.param(pack, marks=marks, id=f"{pack[0][1].name}..{pack[-1][1].name}")


@pytest.mark.parametrize("pack", list(packs()))
def test_every_op_leaves_what_lies_between(pack: list[Seeded]) -> None:
    by_flags = defaultdict(list)
    for seed, sample, kind in pack:
        named = replace(sample.graph(kind).freeze(), name=f"{sample.name} {kind.json}")
        part = with_gaps(named, seed)
        by_flags[under_settings.flags(part, CPU)].append(part)
    for flags, parts in by_flags.items():
        graph, shifts = together(parts)
        assert under_settings.flags(graph, CPU) == flags
        inputs = {
            uid + shift: array
            for part, shift in zip(parts, shifts, strict=True)
            for uid, array in verify.random_inputs(part, seed=1).items()
        }
        wrong = run(graph, inputs)
        # Which of them it is, alone.
        assert not wrong, {p.name: run(p, verify.random_inputs(p, seed=1)) for p in parts}


def built(build: Callable[[Graph, Any], list[Any]], dims: tuple[int, ...] = (1, 4, 6, 6)) -> Any:
    """Return a graph whose outputs are the channels of a larger NHWC image with wider rows."""
    g = Graph("gaps", io_data_type="float", compute_data_type="float")
    for y in build(g, g.tensor(dims=dims, name="x")):
        y.set_output().set_stride((252, 1, 42, 7))
    return g.freeze()


@pytest.mark.parametrize(
    "build",
    [
        lambda g, x: [g.relu(x)],
        lambda g, x: [g.relu(x), g.relu(x)],
        lambda g, x: [g.identity(x), g.identity(x)],
        lambda g, x: [g.gen_index(x, axis=2), g.sub(x, x), g.mul(x, g.scalar(0.0))],
        lambda g, x: [y := g.relu(x), g.exp(y), g.neg(y)],
    ],
    ids=["one", "equal", "inputs", "constants", "operands"],
)
def test_outputs_that_the_compiler_might_copy_as_a_whole(build: Any) -> None:
    graph = built(build)
    inputs = verify.random_inputs(graph)
    assert not run(graph, inputs)
    assert not run(graph, inputs, off=20)  # misaligned: by way of a copy
    assert not run(graph, inputs, "reference")


PITCHES = (
    ((1, 4, 6, 6), (300, 1, 45, 7)),  # rows of NHWC pixels with a pitch that is no multiple
    ((1, 4, 6, 6), (300, 1, 50, 7)),
    ((3, 5), (13, 2)),
    ((3, 5), (9, 2)),  # the next row begins right behind
    ((2, 3, 4), (41, 13, 3)),
    ((2, 3, 4), (1, 17, 4)),
    ((2, 1, 3), (7, 1, 2)),
    ((3, 2, 2), (19, 0, 3)),  # an input that is repeated
)


def test_pitches_that_are_no_multiples() -> None:
    """Of what lies within: of inputs and of outputs, in wide and narrow types."""
    g = Graph("pitches", compute_data_type="float")
    for kind in ("float", "half", "int8", "fp6_e2m3"):
        for dims, strides in PITCHES:
            x = g.tensor(dims=dims, strides=strides, data_type=kind)
            y = g.add(x, x).set_output().set_data_type("float")
            if 0 not in strides:
                y.set_stride(strides)
    graph = g.freeze()
    inputs = verify.random_inputs(graph)
    assert not run(graph, inputs)
    assert not run(graph, inputs, "reference")


@pytest.mark.parametrize("kind", ["int4", "fp4_e2m1", "fp6_e2m3", "boolean", "int8", "half"])
@pytest.mark.parametrize("off", [0, 5])
def test_narrow_types(kind: str, off: int) -> None:
    g = Graph(io_data_type=kind, compute_data_type="float")
    y = g.identity(g.tensor(dims=(3, 2, 8), data_type="float", name="x")).set_output()
    y.set_data_type(kind).set_stride((48, 16, 1))
    graph = g.freeze()
    assert not run(graph, verify.random_inputs(graph), off=off)
    assert not run(graph, verify.random_inputs(graph), "reference")


@pytest.mark.parametrize(("first", "channels"), [(16, 32), (5, 8)], ids=["in place", "copied"])
def test_two_plans_fill_one_buffer_at_the_same_time(first: int, channels: int) -> None:
    """The channels of the same pixels in two parts, from two threads, without a lock."""
    memory = np.empty(2 * 32 * 32 * channels + 16, np.float32)
    memory = memory[-memory.ctypes.data % 64 // 4 :][: 2 * 32 * 32 * channels]
    whole = memory.reshape(2, 32, 32, channels).transpose(0, 3, 1, 2)
    parts = []
    for part, scale in ((whole[:, :first], 2.0), (whole[:, first:], -3.0)):
        g = Graph(io_data_type="float")
        x = g.tensor(dims=part.shape, name="x")
        y = g.mul(x, g.scalar(scale)).set_output()
        y.set_stride([s // 4 for s in part.strides])
        plan = g.build("cpu")
        parts.append((plan, x, y, part, scale))
    wrong: list[str] = []
    start = threading.Barrier(len(parts))

    def fill(plan: Any, x: Any, y: Any, part: Any, scale: float) -> None:
        for turn in range(300):
            given = np.full(x.dims, turn + 1, np.float32)
            start.wait()
            plan.execute({x: given, y: part})
            if not (part == scale * (turn + 1)).all():
                wrong.append(f"turn {turn}")

    threads = [threading.Thread(target=fill, args=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("name", ["iree", "torch", "reference"])
@pytest.mark.parametrize("off", [0, 12])
def test_every_engine_and_way_of_calling(name: str, off: int) -> None:
    if name == "torch":
        pytest.importorskip("torch")
    graph = built(lambda g, x: [g.relu(x)])
    served = engine(name)
    inputs = verify.random_inputs(graph)
    plan = served.build(graph, CPU)
    (uid,), (spec, *_) = graph.outputs, signature_of(graph).args

    def checked(zone: RedZones, call: Callable[[], Any]) -> None:
        call()
        assert not list(zone.touched())
        assert not _wrong(graph, inputs, {uid: zone})

    def memory() -> tuple[RedZones, dict[int, Any]]:
        zone = RedZones(spec, 3, off)
        return zone, {**inputs, uid: zone.array}

    zone, buffers = memory()
    for _ in range(3):
        checked(zone, lambda: plan.execute(buffers))
    zone, buffers = memory()
    checked(zone, plan.bind(buffers))
    zone, buffers = memory()
    checked(zone, lambda: plan.execute_async(buffers).wait())
    zone, buffers = memory()
    checked(zone, lambda: plan.execute_many([buffers] * 2))
    found = plan.run(inputs)[uid]
    assert np.array_equal(found, zone.array)
    dense = np.empty((1, 4, 6, 6), np.float32)
    plan.bind({**inputs, uid: dense}, copy=True)()
    assert np.array_equal(found, dense)


def test_files_in_another_process(tmp_path: Path) -> None:
    """As JSON and as an artifact, on a plan that this process has not made."""
    graph = built(lambda g, x: [g.relu(x)])
    (tmp_path / "graph.json").write_text(dumps(graph))
    save_artifact(tmp_path / "graph.hipdnn", engine("iree").build(graph, CPU))
    for file in ("graph.json", "graph.hipdnn"):
        found = printed(_IN_ANOTHER_PROCESS, str(tmp_path / file), home=tmp_path)
        assert found == "True True\n"


_IN_ANOTHER_PROCESS = """
import sys
import numpy as np
from hipdnn_iree import load, load_artifact
path = sys.argv[1]
plan = load(path).build("cpu") if path.endswith("json") else load_artifact(path).plan()
memory = np.full(252, 7, np.float32)
y = np.lib.stride_tricks.as_strided(memory, (1, 4, 6, 6), (1008, 4, 168, 28))
x = np.linspace(-1, 1, 144, dtype=np.float32).reshape(1, 4, 6, 6)
(given,), (made,) = plan.graph.inputs, plan.graph.outputs
plan.execute({given: x, made: y})
right = np.array_equal(y, np.maximum(x, 0))
y[...] = 7
print(right, bool((memory == 7).all()))
"""


def test_red_zones_show_every_byte() -> None:
    """The tests above would notice."""
    graph = built(lambda g, x: [g.relu(x)])
    zone = RedZones(signature_of(graph).args[0])
    assert not list(zone.touched())
    zone.array[...] = 1
    assert not list(zone.touched())
    for byte in (-1, 4 * 4, 4 * 41, zone.spec.nbytes):
        zone.bytes[zone._first + byte] ^= 1
        assert list(zone.touched()) == [byte]
        zone.bytes[zone._first + byte] ^= 1
