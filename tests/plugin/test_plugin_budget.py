# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a host asks about is answered soon, whatever the graph: larger ones are declined."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import FormatError, NotSupportedError
from hipdnn_iree.graph_api.formats.flatbuffer.decode import lengths
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.hipdnn_plugin import messages, serving
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target

CPU = Target.parse("cpu")
MOST = messages._MOST["nodes"]
Ends = Callable[[], AbstractContextManager[None]]


def chain(n: int, name: str = "") -> Graph:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(4, 4), name=name)
    for _ in range(n):
        x = g.relu(x)
    x.set_output()
    return g


def fan_in(n: int) -> Graph:
    g = Graph(io_data_type="float", compute_data_type="float")
    for _ in range(n):
        x, y = g.tensor(dims=(4, 4)), g.tensor(dims=(4, 4))
        g.add(g.add(x, y), y).set_output()
    return g


@pytest.mark.parametrize(
    ("graph", "port"),
    [(lambda: chain(MOST + 1), "nodes"), (lambda: chain(1, "x" * (8 << 20)), "bytes")],
    ids=["nodes", "bytes"],
)
def test_a_large_graph_is_declined_unread(
    graph: Callable[[], Graph], port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encode(graph().freeze())
    monkeypatch.setattr(messages, "loads", None)  # not even decoded
    (found,) = serving.reasons(data, CPU, settings())
    assert (found.rule, found.port) == ("HOST-01", port)
    config = messages.Config(serving.ENGINE_ID, settings())
    for ask in (serving.build, serving.workspace_guess):
        with pytest.raises(NotSupportedError, match="HOST-01"):
            ask(config, data, CPU)
    assert serving.details(0, settings(), data, CPU) == serving.details(0, settings())


def test_many_tensors_are_declined_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(messages._MOST, "tensors", 100)
    (found,) = serving.reasons(encode(fan_in(26).freeze()), CPU, settings())
    assert (found.rule, found.got) == ("HOST-01", "104 tensors")


def test_the_largest_graph_that_is_read_is_answered(ends: Ends) -> None:
    data = encode(chain(MOST).freeze())
    assert lengths(data) == {"nodes": MOST, "tensors": MOST + 1}
    with ends():
        assert not serving.reasons(data, CPU, settings())


def test_lengths_of_a_damaged_buffer_are_not_believed() -> None:
    """A count that the buffer cannot hold is damage, as ever, and no large graph."""
    data = bytearray(encode(chain(3).freeze()))
    at = data.index(b"\3\0\0\0", 8)
    broken = []
    while at >= 0:
        changed = data[:at] + b"\xff\xff\xff\x7f" + data[at + 4 :]
        if lengths(bytes(changed)) != lengths(bytes(data)):
            assert not any(n > 100 for n in lengths(bytes(changed)).values())
            with pytest.raises(FormatError):
                serving.reasons(bytes(changed), CPU, settings())
            broken.append(at)
        at = data.find(b"\3\0\0\0", at + 4)
    assert broken
    assert lengths(b"") == lengths(b"\4" * 40) == {}
