# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Equality, digest and canonical order: what a graph computes, and nothing else."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, replace
from typing import Any

import hipdnn_iree
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.order import Shape, canonical_order
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=80)
@given(data=st.data())
def test_names_uids_and_order_of_adding_do_not_matter(
    recipe: Callable[..., Any], data: st.DataObject
) -> None:
    made_of = recipe(data.draw, most=7)
    plain, _ = made_of.build()
    frozen = plain.freeze()
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(3):
        other, _ = made_of.build(order=rng, names=rng)
        again = other.freeze()
        assert again.canonical == frozen.canonical
        assert (again.digest, hash(again)) == (frozen.digest, hash(frozen))
        assert again == frozen
        # What is bound by position corresponds: canonical order of equal graphs is one order.
        for a, b in zip(frozen.inputs + frozen.outputs, again.inputs + again.outputs, strict=True):
            for field in ("data_type", "dims", "value", "virtual"):
                assert getattr(frozen.spec(a), field) == getattr(again.spec(b), field)
        assert [n.op for n in again.nodes] == [n.op for n in frozen.nodes]


def branches(order: list[int], swap: bool) -> Graph:
    """Two equal branches whose ends differ, with nodes added in the given order."""
    g = Graph(io_data_type="float")
    x = [g.tensor(dims=(2,)) for _ in range(2)]
    made: dict[int, Any] = {}
    for i in order:
        if i < 2:
            made[i] = g.relu(x[i])
        else:
            ends = (g.neg, g.exp)[:: -1 if swap else 1]
            made[i] = ends[i - 2](made[i - 2]).set_output()
    return g


def test_what_follows_tells_equal_nodes_apart() -> None:
    orders = [
        o
        for o in itertools.permutations(range(4))
        if o.index(0) < o.index(2) and o.index(1) < o.index(3)
    ]
    digests = {branches(list(o), swap).digest for o in orders for swap in (False, True)}
    assert len(orders) == 6
    assert len(digests) == 1


def paired(order: list[int]) -> Graph:
    """x_i -> relu -> add <- neg <- z_i, twice: pairs that only the edges hold together."""
    g = Graph(io_data_type="float")
    x = [g.tensor(dims=(2,)) for _ in range(2)]
    z = [g.tensor(dims=(2,)) for _ in range(2)]
    left = {i: g.relu(x[i]) for i in order[:2]}
    right = {i: g.neg(z[i]) for i in order[2:4]}
    for i in order[4:]:
        g.add(left[i], right[i]).set_output()
    return g


def test_pairs_stay_pairs() -> None:
    two = [(0, 1), (1, 0)]
    digests = {paired([*a, *b, *c]).digest for a in two for b in two for c in two}
    assert len(digests) == 1


def ladder(order: list[int], twist: bool) -> FrozenGraph:
    """Nodes around a ring of shared inputs: one ring of six, or (twisted) two of three."""
    g = Graph(io_data_type="float")
    x = [g.tensor(dims=(2,)) for _ in range(6)]
    for i in order:
        j = (i + 1) % 6 if not twist else (i // 3) * 3 + (i + 1) % 3
        g.sub(x[i], x[j]).set_output()
    return g.freeze()


def test_rings_of_shared_inputs() -> None:
    rng = random.Random(0)
    orders = [rng.sample(range(6), 6) for _ in range(20)]
    one = {ladder(order, False).digest for order in orders}
    two = {ladder(order, True).digest for order in orders}
    assert (len(one), len(two)) == (1, 1)
    # All nodes look alike from near by, yet they are different graphs.
    assert one != two


def test_the_canonical_order_is_topological_and_independent() -> None:
    rng = random.Random(1)
    for _ in range(50):
        count = rng.randrange(2, 12)
        nodes, tensors = [], {0: "source"}
        for _ in range(count):
            inputs = {f"in_{p}": rng.randrange(len(tensors)) for p in range(rng.randrange(1, 3))}
            tensors[len(tensors)] = rng.choice(["a", "b"])
            nodes.append(Shape(rng.choice("xy"), inputs, {"out": len(tensors) - 1}))
        texts = []
        for _ in range(4):
            rename = dict(zip(tensors, rng.sample(range(100), len(tensors)), strict=True))
            shuffled = shuffle_topologically(nodes, rng)
            renamed = [
                Shape(
                    n.text,
                    {p: rename[k] for p, k in n.inputs.items()},
                    {p: rename[k] for p, k in n.outputs.items()},
                )
                for n in shuffled
            ]
            order = canonical_order(renamed, {rename[k]: t for k, t in tensors.items()})
            assert sorted(order) == list(range(count))
            texts.append(listing([renamed[i] for i in order]))
        assert len(set(texts)) == 1


def shuffle_topologically(nodes: list[Shape], rng: random.Random) -> list[Shape]:
    waiting, done, order = list(nodes), {0}, []
    while waiting:
        node = rng.choice([n for n in waiting if done.issuperset(n.inputs.values())])
        waiting.remove(node)
        done.update(node.outputs.values())
        order.append(node)
    return order


def listing(nodes: list[Shape]) -> str:
    number: dict[int, int] = {}
    lines = []
    for node in nodes:
        for key in (*node.inputs.values(), *node.outputs.values()):
            number.setdefault(key, len(number))
        ports = {p: number[k] for p, k in (*node.inputs.items(), *node.outputs.items())}
        lines.append(f"{node.text} {ports}")
    return "\n".join(lines)


# ------------------------------------------------------------------ what does matter


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "stride": {"padding": 1, "stride": 2},
    "dilation": {"padding": 2, "dilation": 2},
    "pre_padding": {"pre_padding": 0, "post_padding": 2},
    "conv_mode": {"padding": 1, "conv_mode": "convolution"},
}


def graph(
    change: str = "",
    *,
    mode: str = "sub",
    value: Any = 0.5,
    value_type: str = "float",
    **attributes: float,
) -> FrozenGraph:
    """A graph with a bit of everything, changed in one place."""
    g = Graph(
        "g",
        io_data_type="half" if change != "io" else "bfloat16",
        compute_data_type="float" if change != "compute" else "double",
        intermediate_data_type="float" if change != "intermediate" else "half",
    )
    last = (192, 1, 24, 3)
    x = g.tensor(dims=(1, 3, 8, 8), strides=last if change == "layout" else None)
    w = g.tensor(
        dims=(6 if change == "dims" else 4, 3, 3, 3),
        data_type="float" if change == "type" else "half",
    )
    node = {"compute_data_type": "double"} if change == "node compute" else {}
    conv = CONVOLUTIONS.get(change, {"padding": 1})
    y = g.conv_fprop(x, w, **conv, **node)
    if change == "virtual":
        y.set_output()
    a, b = g.relu(y, **attributes), g.exp(y)
    if change == "same twice":
        b = a
    if change == "swapped":
        a, b = b, a
    z = g.pointwise(a, b, mode=mode)
    factor = g.scalar(value, data_type=value_type)
    factor.runtime_scalar = change == "runtime scalar"
    z = g.mul(z, factor)
    z = g.reduction(
        z,
        mode="max" if change == "reduction" else "add",
        axes=(2,) if change == "axes" else (2, 3),
        is_deterministic=change == "deterministic",
    )
    z.set_output()
    if change == "result type":
        z.set_data_type("float")
    if change == "result layout":
        g.neg(y).set_output().set_stride((256, 1, 32, 4))
    if change == "result":
        g.neg(y).set_output()
    return g.freeze()


CHANGES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in (
        "io", "compute", "intermediate", "layout", "dims", "type", "node compute", "stride",
        "pre_padding", "dilation", "conv_mode", "virtual", "same twice", "swapped", "reduction",
        "axes", "deterministic", "result type", "result layout", "result", "runtime scalar",
    )),
    ("", {"mode": "add"}),
    ("", {"value": 0.25}),
    ("", {"value": 0.0}),
    ("", {"value": -0.0}),
    ("", {"value": 0.5, "value_type": "double"}),
    ("", {"value": 1, "value_type": "int64"}),
    ("", {"value": 1, "value_type": "int32"}),
    ("", {"value": 1.0, "value_type": "double"}),
    ("", {"value": 1.0, "value_type": "float"}),
    ("", {"value": True, "value_type": "boolean"}),
    ("", {"value": float("nan")}),
    ("", {"value": float("inf")}),
    ("", {"value": float("-inf")}),
    ("", {"upper_clip": 6.0}),
    ("", {"upper_clip": 5.0}),
    ("", {"lower_clip": -1.0}),
    ("", {"lower_clip_slope": 0.5}),
]  # fmt: skip


def test_every_change_changes_the_digest() -> None:
    base = graph()
    found = {base.digest: "nothing"}
    for change, options in CHANGES:
        other = graph(change, **options)
        name = f"{change} {options}"
        assert other != base, name
        assert other.digest not in found, f"{name} equals {found[other.digest]}"
        found[other.digest] = name
    assert len(found) == len(CHANGES) + 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # The same value of the same type, however it was written.
        ({"value": 1, "value_type": "float"}, {"value": 1.0, "value_type": "float"}),
        ({"value": True, "value_type": "int64"}, {"value": 1, "value_type": "int64"}),
        ({"value": 0.1}, {"value": 0.10000000149011612}),
        ({"upper_clip": 6}, {"upper_clip": 6.0}),
        ({"upper_clip": 0.1}, {"upper_clip": 0.10000000149011612}),
    ],
)  # fmt: skip
def test_different_spellings_of_one_graph(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert graph(**one) == graph(**other)
    assert graph(**one).digest == graph(**other).digest


def test_strides_that_address_nothing_do_not_matter() -> None:
    def make(strides: tuple[int, ...], virtual: tuple[int, ...]) -> FrozenGraph:
        g = Graph(io_data_type="float")
        y = g.relu(g.tensor(dims=(1, 4, 1), strides=strides))
        y.set_stride(virtual)
        g.neg(y).set_output().set_stride((4, 1, 1))
        return g.freeze()

    assert make((4, 1, 1), (4, 1, 1)) == make((99, 1, 0), (1, 1, 4))
    assert make((4, 1, 1), (4, 1, 1)) != make((4, 0, 1), (4, 1, 1))


def test_ports_connected_in_any_order() -> None:
    from hipdnn_iree.graph_api.ops.conv_fprop import ConvFprop

    def make(swap: bool) -> FrozenGraph:
        g = Graph(io_data_type="float")
        ports = {"x": g.tensor(dims=(1, 2, 5)), "w": g.tensor(dims=(3, 2, 3))}
        items = list(ports.items())[:: -1 if swap else 1]
        g.add_node(ConvFprop(), dict(items))["y"].set_output()
        return g.freeze()

    assert make(False) == make(True)
    assert list(make(True).nodes[0].inputs) == ["x", "w"]


def test_dead_nodes_are_dropped_and_unused_tensors_listed() -> None:
    def make(dead: bool) -> tuple[Graph, Any]:
        g = Graph(io_data_type="float")
        x = g.tensor(dims=(2,), name="x")
        extra = None
        if dead:
            extra = g.tensor(dims=(3,), name="unused", uid=40)
            g.exp(g.neg(extra).set_uid(41)).set_uid(42)
            g.log(x).set_uid(43)
            g.scalar(1.5, uid=44)
        g.relu(x, name="kept").set_output()
        return g, x

    g, x = make(dead=True)
    frozen = g.freeze()
    assert frozen == make(dead=False)[0].freeze()
    assert [n.label for n in frozen.nodes] == ["kept"]
    assert frozen.inputs == (x.uid,)
    assert sorted(frozen.unused) == [40, 41, 42, 43, 44]
    assert not set(frozen.unused) & set(frozen.tensors)
    assert make(dead=False)[0].freeze().unused == ()


def test_a_dead_node_is_checked_all_the_same() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(2,))
    g.pointwise(x, mode="abs", elu_alpha=1, name="dead")
    g.relu(x).set_output()
    assert [(p.rule, p.node) for p in g.problems()] == [("PW-04", "dead")]


def test_ragged_offsets_are_part_of_the_graph() -> None:
    def make(ragged: bool) -> Graph:
        g = Graph(io_data_type="float")
        x = g.tensor(dims=(2, 3), uid=1)
        offsets = g.tensor(dims=(3,), data_type="int32", uid=2)
        x.ragged_offset_uid = offsets.uid if ragged else None
        g.relu(x).set_output().set_uid(3)
        return g

    frozen = make(True).freeze()
    assert frozen != make(False).freeze()
    assert frozen.inputs == (1, 2)
    assert frozen == Graph.from_json(make(True).to_json()).freeze()
    assert make(False).freeze().unused == (2,)


# ------------------------------------------------------------------ the record itself


def test_equality_and_hash() -> None:
    a, b = graph(), graph()
    assert a is not b
    assert a == b
    assert len({a, b, graph("layout")}) == 2
    assert a != "graph"
    assert (a == 1) is False
    assert len(a.digest) == 64
    assert a.digest == graph().digest
    assert Graph("x", io_data_type="float") != Graph("x", io_data_type="float")


def test_copies_and_pickles() -> None:
    frozen = graph(value=float("nan"))
    for again in (
        pickle.loads(pickle.dumps(frozen)),
        copy.deepcopy(frozen),
        copy.copy(frozen),
        replace(frozen, name="other"),
    ):
        assert again == frozen
        assert again.digest == frozen.digest
        assert list(again.tensors) == list(frozen.tensors)
        with pytest.raises(TypeError):
            again.tensors[1] = None
        with pytest.raises(TypeError):
            again.nodes[0].inputs["x"] = 1
    assert pickle.loads(pickle.dumps(frozen.nodes[0])) == frozen.nodes[0]


def test_a_frozen_graph_does_not_change() -> None:
    frozen = graph()
    node, spec = frozen.nodes[0], next(iter(frozen.tensors.values()))
    for record, name in ((frozen, "name"), (node, "op"), (node.op, "stride"), (spec, "dims")):
        with pytest.raises(FrozenInstanceError):
            setattr(record, name, None)
    for mapping in (frozen.tensors, node.inputs, node.outputs):
        with pytest.raises(TypeError):
            mapping[1] = 1
    assert isinstance(frozen.nodes, tuple)
    assert isinstance(frozen.inputs, tuple)
    assert isinstance(frozen.outputs, tuple)


def test_handles_changed_behind_the_back_do_not_reach_a_frozen_graph() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(2,))
    g.relu(x).set_output()
    before = g.freeze().canonical
    for name, value in (("dims", (3,)), ("strides", (2,)), ("data_type", "half"), ("name", "x")):
        with pytest.raises(GraphError, match="GRAPH-07"):
            setattr(x, name, value)
    with pytest.raises(GraphError, match="GRAPH-07"):
        g.io_data_type = DataType.HALF
    g.nodes.clear()
    assert g.freeze().canonical == before


def test_many_graphs_in_many_threads() -> None:
    changes = [c for c, options in CHANGES if not options]
    alone = [graph(c).digest for c in changes]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert [f.digest for f in pool.map(graph, changes)] == alone


def test_one_frozen_graph_in_many_threads() -> None:
    made = [graph() for _ in range(20)]
    expected = graph().digest
    with ThreadPoolExecutor(8) as pool:
        assert {d for f in made for d in pool.map(lambda f: f.digest, [f] * 4)} == {expected}


def test_the_digest_is_the_same_in_every_process() -> None:
    code = """
from hipdnn_iree.graph_api.graph import Graph
g = Graph(io_data_type="half", compute_data_type="float")
x = g.tensor(dims=(2, 3))
a, b, c = g.relu(x, upper_clip=0.1), g.exp(x), g.neg(g.tensor(dims=(2, 3)))
g.add(g.sub(a, b), g.mul(c, 0.1)).set_output()
print(g.digest)
"""
    root = os.path.dirname(os.path.dirname(hipdnn_iree.__file__))
    digests = set()
    for seed in ("0", "1"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1
