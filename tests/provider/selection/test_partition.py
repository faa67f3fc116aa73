# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Partitioning: graphs that several engines serve together."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from here_and_now import choose, engine, tune
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import BindError, NotSupportedError, SettingError
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.provider.engines.split.search import find_splits, parse
from hipdnn_iree.provider.engines.split.subgraph import subgraph
from hipdnn_iree.provider.selection.cost import estimate
from hipdnn_iree.provider.verify import compare, expect, poisoned_outputs, random_inputs

pytestmark = pytest.mark.usefixtures("own_winners")

CPU = Target.parse("cpu")


def block(n: int = 4) -> Graph:
    """matmul, bias, relu, matmul, and the sum of the first result: a diamond with two outputs."""
    g = Graph("block", io_data_type="float")
    x, b = g.tensor(dims=(n, 8), name="x"), g.tensor(dims=(1, 6), name="b")
    w, v = g.tensor(dims=(8, 6), name="w"), g.tensor(dims=(6, 5), name="v")
    h = g.relu(g.add(g.matmul(x, w), b))
    g.output(g.matmul(h, v), name="y")
    g.output(g.reduction(h, mode="add", axes=(1,)), name="s")
    return g


def restricted(install: Any, **more: Any) -> tuple[Any, Any]:
    """Install two engines that serve half of the ops each."""
    a = install.Engine("A_ENGINE", serves=("matmul",), **more)
    b = install.Engine("B_ENGINE", serves=("pointwise", "reduction"))
    install(a, b)
    return a, b


def check(plan: Any, seed: int = 1) -> None:
    frozen = plan.graph
    inputs, outputs = random_inputs(frozen, seed=seed), poisoned_outputs(frozen)
    plan.execute({**inputs, **outputs})
    assert (report := compare(frozen, outputs, expect(frozen, inputs))).ok, str(report)


# ---------------------------------------------------------------------------- parts


def test_parts_are_graphs_of_their_own() -> None:
    whole = block().freeze()
    count = len(whole.nodes)
    for first in range(count):
        for last in range(first, count):
            part = subgraph(whole, first, last)
            assert len(part.nodes) == last - first + 1
            made = {u for n in part.nodes for u in n.outputs.values()}
            needed = {u for n in part.nodes for u in n.inputs.values()} - made
            assert set(part.inputs) == needed
            later = {u for n in whole.nodes[last + 1 :] for u in n.inputs.values()}
            assert set(part.outputs) == made & (later | set(whole.outputs))
            assert not any(part.tensors[u].virtual for u in (*part.inputs, *part.outputs))
    assert subgraph(whole, 0, count - 1).digest == whole.digest


# ---------------------------------------------------------------------------- search


def test_splits_are_minimal_and_the_cheapest_first(install: Any) -> None:
    a, b = restricted(install)
    whole = block().freeze()
    found = find_splits(whole, CPU, [a, b])
    best = found[0]
    assert [s.us for s in found] == sorted(s.us for s in found)
    assert parse(str(best)) == best.parts
    nodes = [k for p in best.parts for k in range(p.first, p.last + 1)]
    assert nodes == list(range(len(whole.nodes)))
    for part in best.parts:
        ops = {n.op.NAME for n in whole.nodes[part.first : part.last + 1]}
        assert ops <= set(a.serves if part.engine == "a_engine" else b.serves)
    engines = [p.engine for p in best.parts]
    assert all(x != y for x, y in pairwise(engines))


def test_a_long_chain_is_searched_quickly(install: Any) -> None:
    a, b = restricted(install)
    g = Graph("chain", io_data_type="float")
    x = g.tensor(dims=(4, 4), name="x")
    w = g.tensor(dims=(4, 4), name="w")
    for _ in range(20):
        x = g.relu(g.matmul(x, w))
    g.output(x, name="y")
    whole = g.freeze()
    (split,) = find_splits(whole, CPU, [a, b])
    assert len(split.parts) == 40
    # One engine takes all of it as a whole, so there is nothing to split.
    everything = install.Engine("C_ENGINE")
    assert find_splits(whole, CPU, [everything]) == ()
    # One that serves short graphs only is asked for halves.
    short = install.Engine("D_ENGINE")
    short.declines = lambda graph, target: [None] * (len(graph.nodes) > 12)
    (halves,) = find_splits(whole, CPU, [short])
    assert [(p.first, p.last) for p in halves.parts] == [(0, 9), (10, 19), (20, 29), (30, 39)]
    assert find_splits(whole, CPU, [a]) == ()


# ---------------------------------------------------------------------------- plans


def test_a_graph_that_no_engine_serves_alone_is_split(install: Any) -> None:
    restricted(install)
    with scope(engine_deselect="iree"):
        chosen = choose(block().freeze(), "cpu")
        assert (chosen.name, chosen.policy) == ("SPLIT_ENGINE", "order")
        plan = block().build("cpu")
    assert plan.engine == "SPLIT_ENGINE"
    assert plan.statistics["between_bytes"] > 0
    check(plan)
    frozen = plan.graph
    inputs = random_inputs(frozen, seed=3)
    expected = expect(frozen, inputs)
    assert compare(frozen, plan.run(inputs), expected).ok
    # A bound call, repeated, and from several threads at once.
    outputs = poisoned_outputs(frozen)
    call = plan.bind({**inputs, **outputs})
    threads = [threading.Thread(target=lambda: [call() for _ in range(5)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compare(frozen, outputs, expected).ok
    # Other shapes are split anew.
    other = plan.with_shapes({"x": (7, 8)})
    assert (other.engine, other.policy) == ("SPLIT_ENGINE", "order")
    check(other)


def test_real_engines_share_a_graph(install: Any) -> None:
    """IREE and another one, each with what it serves."""
    only = install.Engine("A_ENGINE", serves=("pointwise",))
    install(only)
    found = choose(block().freeze(), "cpu", engine_name="split")
    (knob,) = found.knobs
    assert knob.default == knob.choices[0]
    for text in knob.choices:
        assert {"iree", "a_engine"} >= {p.engine for p in parse(text)}
        plan = block().build("cpu", engine="split", knobs={"parts": text})
        assert (plan.policy, plan.knobs) == ("pinned", {"parts": text})
        assert plan.statistics["parts"] == text
        check(plan)
    with pytest.raises(SettingError, match="'parts' of engine SPLIT_ENGINE"):
        block().build("cpu", engine="split", knobs={"parts": "iree:0-4"})


def test_buffers_are_judged_as_one_graphs(install: Any) -> None:
    restricted(install)
    plan = block().build("cpu", engine="split")
    frozen = plan.graph
    inputs, outputs = random_inputs(frozen, seed=1), poisoned_outputs(frozen)
    whole = {**inputs, **outputs}
    first, *_ = frozen.inputs
    with pytest.raises(BindError, match="BIND-01"):
        plan.execute({u: a for u, a in whole.items() if u != first})
    with pytest.raises(BindError, match="BIND-02"):
        plan.execute({**whole, 10_000: np.zeros(1, np.float32)})
    handed = next(iter(plan.between))  # type: ignore[attr-defined]
    with pytest.raises(BindError, match="BIND-02"):  # not the caller's to give
        plan.execute({**whole, handed: np.zeros((4, 6), np.float32)})
    y = frozen.outputs[0]
    shared = np.zeros(256, np.float32)
    x = next(u for u in frozen.inputs if frozen.tensors[u].name == "x")
    over = {u: np.ndarray(frozen.tensors[u].dims, np.float32, shared.data, 0) for u in (x, y)}
    with pytest.raises(BindError):
        plan.execute({**whole, **over})


def test_what_is_not_split(install: Any) -> None:
    restricted(install)
    split = engine("split")

    def rules(graph: Graph, target: Target = CPU) -> set[str]:
        return {d.problem.rule for d in split.declines(graph.freeze(), target)}

    assert rules(block()) == set()
    assert rules(block(), Target.parse("gfx942")) == {"SPLIT-04"}
    g = Graph(io_data_type="float")
    g.relu(g.tensor(dims=(4,))).set_output()
    assert rules(g) == {"SPLIT-01"}
    with scope(engine_deselect="iree"), pytest.raises(NotSupportedError, match="no engine serves"):
        choose(dynamic().freeze(), "cpu")
    assert rules(dynamic()) == {"SPLIT-01"}
    long = Graph(io_data_type="float")
    x = long.tensor(dims=(4,))
    for _ in range(1001):
        x = long.relu(x)
    x.set_output()
    assert rules(long) == {"SPLIT-05"}
    install(install.Engine("C_ENGINE", serves=("conv_fprop",)))
    assert rules(block()) == {"SPLIT-03"}  # IREE serves it all, and the other one nothing


def dynamic() -> Graph:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(g.dynamic("n"), 4))
    g.matmul(g.relu(x), g.tensor(dims=(4, 4))).set_output()
    return g


def test_a_node_that_nobody_serves_is_named(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(install.Engine("C_ENGINE", serves=("matmul",)))
    split = engine("split")
    monkeypatch.setattr(type(engine("iree")), "declines", engine_that_declines)
    problems = [d.problem for d in split.declines(block().freeze(), CPU)]
    assert {p.rule for p in problems} == {"SPLIT-02"}
    assert {"pointwise, declined by", "reduction, declined by"} == {
        " ".join(p.got.split()[:3]) for p in problems
    }
    assert all(p.node for p in problems)


def engine_that_declines(self: Any, graph: Any, target: Any) -> list[Any]:
    from hipdnn_iree.graph_api.errors import Decline, Problem

    return [Decline(engine=self.NAME, problem=Problem(rule="NO", got="it", wanted="nothing"))]


# ---------------------------------------------------------------------------- choosing


def test_a_split_that_is_faster_is_found_by_tuning(install: Any) -> None:
    slow = install.Engine("A_ENGINE", serves=("pointwise", "reduction"))
    install(slow)
    found = tune(block().freeze(), "cpu", engines=["iree", "split"], budget_s=0.1)
    rows = [r for r in found.rows if r.engine == "SPLIT_ENGINE"]
    assert rows
    assert {r.status for r in rows} == {"ok"}
    assert found.winner is not None
    assert found.winner.engine == "IREE_JIT_ENGINE"  # NumPy is no help
    assert choose(block().freeze(), "cpu").name == "IREE_JIT_ENGINE"
    assert choose(block().freeze(), "cpu", engine_name="split").measured_us is None
    pinned = choose(block().freeze(), "cpu", engine_name="split", policy="tuned")
    assert pinned.policy == "pinned+tuned"


def test_estimates_of_splits_are_those_of_their_parts(install: Any) -> None:
    restricted(install)
    whole, split = block().freeze(), engine("split")
    parts = parse(split.knobs(whole, CPU)[0].default)
    total = sum(estimate(subgraph(whole, p.first, p.last), CPU, engine(p.engine)).us for p in parts)
    found = estimate(whole, CPU, split)
    assert found.us == pytest.approx(1.25 * total)
    assert f"{len(parts)} parts" in found.model.note
