# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damaged and hostile buffers: a clean error by a rule, or a graph; never a crash or a hang.

The default run takes some thousands; ``--full`` takes a million.
"""

from __future__ import annotations

import random
import resource
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import FormatError, GraphError
from hipdnn_iree.graph_api.formats.flatbuffer.decode import decode
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.formats.flatbuffer.engine_messages import (
    EngineConfig,
    EngineDetails,
    Knob,
    Range,
    decode_config,
    decode_details,
    encode_config,
    encode_details,
)
from hipdnn_iree.graph_api.formats.flatbuffer.plan_envelope import (
    SerializedPlan,
    decode_plan,
    encode_plan,
)
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import Era
from hipdnn_iree.graph_api.formats.flatbuffer.wire_rules import RULES
from hipdnn_iree.provider.sweep.samples import sample_problems

NASTY = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 16, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32 - 4, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 8),
)


def originals(recorded: list[Any]) -> list[bytes]:
    """The recorded graphs, and small graphs of every op in both forms."""
    found = [item.data for item in recorded]
    seen: Counter[str] = Counter()
    for sample in sample_problems():
        graph = sample.graph(sample.dtypes[0]).freeze()
        ops = {node.op.NAME for node in graph.nodes}
        if all(seen[op] >= 3 for op in ops):
            continue
        for era in Era:
            try:
                found.append(encode(graph, era, inv_variance="inverse"))
            except FormatError:
                continue
            seen.update(ops)
    return found


def mutant(rng: random.Random, sources: list[bytes]) -> bytes:
    """Return one of the buffers with something wrong in it."""
    data = bytearray(rng.choice(sources))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        kind = rng.randrange(9)
        at = rng.randrange(len(data)) if data else 0
        if kind == 0:  # one bit
            data[at : at + 1] = bytes(b ^ (1 << rng.randrange(8)) for b in data[at : at + 1])
        elif kind in (1, 2):  # a number
            size, text = rng.choice(((1, "<B"), (2, "<H"), (4, "<I"), (8, "<Q")))
            at -= at % rng.choice((1, size))
            if at + size <= len(data):
                value = rng.choice((*NASTY, len(data), len(data) - at, at)) % 2 ** (8 * size)
                struct.pack_into(text, data, at, value)
        elif kind == 3:  # a number a little off
            at -= at % 2
            if at + 2 <= len(data):
                (value,) = struct.unpack_from("<H", data, at)
                struct.pack_into("<H", data, at, (value + rng.choice((-8, -4, 4, 8, 2))) % 65536)
        elif kind == 4:  # two words exchanged
            other = rng.randrange(len(data)) if data else 0
            a, b = at - at % 4, other - other % 4
            data[a : a + 4], data[b : b + 4] = data[b : b + 4], data[a : a + 4]
        elif kind == 5:  # cut off
            del data[at:]
        elif kind == 6:  # a hole, or something in between
            if rng.random() < 0.5:
                del data[at : at + rng.choice((1, 4, 8, 40))]
            else:
                data[at:at] = rng.randbytes(rng.choice((1, 4, 8, 40)))
        elif kind == 7:  # garbage over it
            size = min(rng.choice((1, 4, 16, 200)), len(data) - at)
            data[at : at + size] = rng.randbytes(size)
        else:  # a piece of another one
            other = rng.choice(sources)
            start = rng.randrange(len(other))
            piece = other[start : start + rng.choice((4, 16, 64, 400))]
            data[at : at + len(piece)] = piece
    return bytes(data) if rng.random() < 0.99 else rng.randbytes(rng.randrange(200))


def mutants(count: int, sources: list[bytes], seed: int) -> Iterator[bytes]:
    """Yield damaged buffers, the same ones for the same seed."""
    rng = random.Random(seed)
    for _ in range(count):
        yield mutant(rng, sources)


def outcome(data: bytes) -> str:
    """Return what a buffer is: a graph, or the class and the first rule of the error."""
    try:
        return "graph" if decode(data, Graph).graph.freeze().digest else ""
    except FormatError as error:
        return told(error)
    except GraphError as error:
        return "no graph" if error.problems else ""


def told(error: FormatError) -> str:
    """Return the first rule of an error, all of whose rules are those of the wire format."""
    assert {p.rule for p in error.problems} <= set(RULES)
    return error.problems[0].rule


Ends = Callable[[], AbstractContextManager[None]]


def peak() -> float:
    """Return the largest size that this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check(count: int, recorded: list[Any], seed: int, ends: Ends) -> Counter[str]:
    sources = originals(recorded)
    before = peak()
    found: Counter[str] = Counter()
    for data in mutants(count, sources, seed):
        with ends():
            found[outcome(data)] += 1
    assert peak() - before < 500
    return found


def test_some_thousand_damaged_graphs(all_recorded: list[Any], ends: Ends) -> None:
    found = check(8_000, all_recorded, 1, ends)
    # The fuzzer reaches the inside: much is sound enough for the rules of the graph.
    assert found["graph"] > 400
    assert found["no graph"] > 100
    assert {"WIRE-02", "WIRE-03", "WIRE-04", "WIRE-06", "WIRE-11"} <= set(found)


@pytest.mark.full
@pytest.mark.slow
def test_a_million_damaged_graphs(all_recorded: list[Any], ends: Ends) -> None:
    found = check(1_000_000, all_recorded, 2, ends)
    assert found["graph"] > 50_000


def test_damaged_engines_and_plans(recorded_config: bytes) -> None:
    knobs = (
        Knob(id="a", default=3, range=Range(low=0, high=9, values=(1, 2))),
        Knob(id="b", default="x", range=Range(values=("x", "y"))),
        Knob(id="c", default=0.5),
    )
    details = encode_details(EngineDetails(engine_id=9, knobs=knobs, behavior_notes=(0, 4)))
    settings = {"a": 1, "b": "x", "c": 0.5}
    config = encode_config(EngineConfig(engine_id=9, knobs=settings, ranking_metric="time"))
    plan = encode_plan(SerializedPlan(engine_id=9, tensor_uids=(1, 2), payload=b"abc" * 20))
    for read, sources in (
        (decode_details, [details]),
        (decode_config, [config, recorded_config]),
        (decode_plan, [plan]),
    ):
        sound = 0
        for data in mutants(3_000, sources, seed=3):
            try:
                read(data)
                sound += 1
            except FormatError as error:
                told(error)
        assert 100 < sound < 2_900


def test_a_small_graph_is_read_in_few_steps(
    all_recorded: list[Any], steps: Callable[[Callable[[], object]], int]
) -> None:
    """A convolution with three tensors, about 0.1 ms on an idle core."""
    (conv,) = (item.data for item in all_recorded if item.name == "fprop_autouid")
    decode(conv, Graph)
    assert steps(lambda: decode(conv, Graph)) < 1500  # 713 as counted
