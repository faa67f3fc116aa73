# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory that a host gives: one buffer for output and input, and threads with small stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode


def pointwise() -> Graph:
    graph = Graph(io_data_type="float", compute_data_type="float")
    x, bias = graph.tensor(dims=(2, 7, 5, 9), uid=1), graph.tensor(dims=(1, 7, 1, 1), uid=2)
    graph.relu(graph.add(x, bias)).set_output().set_uid(3)
    return graph


def product() -> Graph:
    graph = Graph(io_data_type="float", compute_data_type="float")
    x, w = graph.tensor(dims=(16, 16), uid=1), graph.tensor(dims=(16, 16), uid=2)
    graph.add(graph.matmul(x, w), x).set_output().set_uid(3)
    return graph


@pytest.mark.parametrize("skew", [0, 16])
def test_an_output_in_the_memory_of_an_input(skew: int, host: Any, make_job: Any) -> None:
    job = make_job(encode(pointwise().freeze()), skew=skew)
    facts = host.run("in_place", *job.arguments, 3, 1, 0)
    assert facts["status"] == "0", facts
    job.verify()


@pytest.mark.parametrize(
    ("graph", "read", "shift"), [(pointwise, 2, 0), (pointwise, 1, 64), (product, 1, 0)]
)
def test_an_output_that_may_not_be_there_is_refused(
    graph: Any, read: int, shift: int, host: Any, make_job: Any
) -> None:
    job = make_job(encode(graph().freeze()))
    facts = host.run("in_place", *job.arguments, 3, read, shift)
    assert facts["status"] == "1"
    assert "BIND-10" in facts["error"]


WARM = (16, 64, 128, 256, 400, 1024, 4096)
COLD = (64, 400)  # each compiles


@pytest.mark.parametrize(
    ("kib", "cold"), [*((kib, False) for kib in WARM), *((kib, True) for kib in COLD)]
)
def test_threads_with_small_stacks(
    kib: int, cold: bool, host: Any, make_job: Any, tmp_path: Path
) -> None:
    """The first thread starts Python, and compiles; the others find what it has left."""
    job = make_job(encode(product().freeze()))
    env = {"HOST_UNLISTED": "1"}
    env |= {"HIPDNN_IREE_CACHE_DIR": str(tmp_path / "own")} if cold else {}
    facts = host.run("stack", *job.arguments, kib, env=env)
    assert len(facts["call_us"].splitlines()) == 3
    job.verify()
