# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mixtures of experts in blocks of rows: whatever the table of groups, and when they are chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from here_and_now import engine
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.ops.experts import block_count, block_rows
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.strategies import choices
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import execute, expect

CPU = Target.parse("cpu")
FAR = 2**31 - 1
BLOCKS = "moe_grouped_matmul=blocks,moe_grouped_matmul_bwd=blocks"


def product(
    rows: int = 37,
    weight: tuple[int, int, int] = (3, 20, 12),
    *,
    groups: int = 0,
    kind: str = "float",
    mode: str = "none",
    routed: int = 0,
    columns: bool = False,
) -> FrozenGraph:
    g = Graph(io_data_type=kind, compute_data_type="float")
    experts, k, n = weight
    tables = ("token_index", "token_ks")[: ("none", "gather", "scatter").index(mode)]
    y = g.moe_grouped_matmul(
        g.tensor(dims=(1, rows, k), name="token"),
        g.tensor(dims=weight, strides=(k * n, 1, k) if columns else None, name="weight"),
        g.tensor(dims=(groups or experts, 1, 1), data_type="int32", name="first_token_offset"),
        mode=mode,
        top_k=2 if mode == "scatter" else 0,
        **{name: g.tensor(dims=(1, routed, 1), data_type="int32", name=name) for name in tables},
    )
    y.set_output()
    return g.freeze()


def gradient(
    rows: int = 37,
    weight: tuple[int, int, int] = (3, 20, 12),
    *,
    groups: int = 0,
    kind: str = "float",
) -> FrozenGraph:
    g = Graph(io_data_type=kind, compute_data_type="float")
    experts, k, n = weight
    g.moe_grouped_matmul_bwd(
        g.tensor(dims=(1, rows, n), name="doutput"),
        g.tensor(dims=(1, rows, k), name="token"),
        g.tensor(dims=(groups or experts, 1, 1), data_type="int32", name="first_token_offset"),
        dweight_dims=weight,
    ).set_output()
    return g.freeze()


def named(graph: FrozenGraph) -> dict[str, int]:
    return {graph.tensors[uid].name: uid for uid in graph.inputs}


def tables(groups: int, rows: int) -> list[list[int]]:
    """Even and random shares; one group with all; rows of none; empty ones; what is forbidden."""
    rng = np.random.default_rng(3)
    return [
        [rows * g // groups for g in range(groups)],
        sorted(rng.integers(0, rows + 1, groups).tolist()),
        [0] * groups,
        [0] + [rows] * (groups - 1),
        [rows] * groups,
        [min(1, rows - 1)] * (groups // 2) + [rows - 1] * (groups - groups // 2),
        rng.integers(-5, rows + 5, groups).tolist(),
        [FAR, *([-FAR - 1] * (groups - 1))],
    ]


CASES = {
    "float": product(),
    "half, groups": product(groups=6, kind="half"),
    "bfloat16, columns": product(columns=True, kind="bfloat16"),
    "one expert": product(33, (1, 7, 5)),
    "one row": product(1, (4, 7, 5)),
    "gather": product(23, groups=6, mode="gather", routed=41),
    "scatter": product(31, mode="scatter", routed=29),
    "gradient": gradient(),
    "gradient, half, groups": gradient(groups=6, kind="half"),
    "gradient, bfloat16, one expert": gradient(1, (1, 7, 5), kind="bfloat16"),
    "gradient, double": gradient(kind="double"),
}


LONG = {"float", "one expert", "gradient", "gradient, double"}


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(graph, id=name, marks=[pytest.mark.full] if name in LONG else [])
        for name, graph in CASES.items()
    ],
)
def test_every_table_of_groups(graph: FrozenGraph) -> None:
    with scope(compiler_strategies=BLOCKS):
        plan = engine("iree").build(graph, CPU)
    uids = named(graph)
    shape = graph.tensors[uids["first_token_offset"]].dims
    index = uids.get("token_index")
    rows = graph.tensors[uids["token"] if index is None else index].dims[1]
    for seed, table in enumerate(tables(shape[0], rows)):
        inputs: dict[Any, Any] = dict(verify.random_inputs(graph, seed=seed))
        inputs[uids["first_token_offset"]] = np.array(table, np.int32).reshape(shape)
        if index is not None and seed % 2:  # out of range, and several rows for one place
            wild = np.random.default_rng(seed).integers(-9, 50, (1, rows, 1))
            wild[0, :2, 0] = FAR, -FAR - 1
            inputs[index] = wild.astype(np.int32)
        outputs: dict[Any, Any] = dict(verify.poisoned_outputs(graph))
        plan.execute({**inputs, **outputs})
        report = verify.compare(graph, outputs, expect(graph, inputs))
        assert report.ok, f"{table}: {report}"


@pytest.mark.parametrize("name", ["float", "gradient"])
def test_what_is_not_finite_stays_where_it_is(name: str) -> None:
    graph, uids = CASES[name], named(CASES[name])
    with scope(compiler_strategies=BLOCKS):
        plan = engine("iree").build(graph, CPU)
    inputs: dict[Any, Any] = dict(verify.random_inputs(graph, seed=1))
    # Rows 0 to 4 have no expert, 5 to 24 the first, 25 and 26 the second, the rest the third.
    inputs[uids["first_token_offset"]] = np.array([5, 25, 27], np.int32).reshape(3, 1, 1)
    inputs[uids["token"]][0, 3:26:22] = np.nan
    if name == "gradient":
        inputs[uids["doutput"]][0, [4, 26]] = np.inf
    else:
        inputs[uids["weight"]][1] = np.inf
    outputs: dict[Any, Any] = dict(verify.poisoned_outputs(graph))
    plan.execute({**inputs, **outputs})
    (uid,) = graph.outputs
    clean = {of: np.nan_to_num(x, posinf=1) for of, x in inputs.items()}
    got, expected = np.asarray(outputs[uid]), execute(graph, clean)[uid]
    if name == "float":
        got, expected, bad = got[0], expected[0], [25, 26]
    else:
        bad = [1]
    assert not np.isfinite(got[bad]).any()
    keep = np.delete(np.arange(len(got)), bad)
    np.testing.assert_allclose(got[keep], expected[keep], atol=1e-4)


def test_there_are_blocks_enough_for_all_shares() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        rows, groups, size = (int(rng.integers(1, n)) for n in (70, 12, 20))
        cuts = np.sort(rng.integers(0, rows + 1, groups - 1))
        shares = np.diff(np.concatenate([[0], cuts, [rows]]))
        assert sum(-(-shares // size)) <= block_count(rows, groups, size)
    assert block_count(512, 8, 64) == 15
    assert block_count(1, 8, 64) == 1


def test_blocks_grow_with_the_rows_of_a_group() -> None:
    sizes = [block_rows(rows, 8, 512, 512) for rows in (64, 512, 4096, 65536)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


@pytest.mark.parametrize("build", [product, gradient])
def test_when_blocks_are_chosen(build: Any) -> None:
    def form(rows: int, weight: tuple[int, int, int], target: str = "cpu") -> str:
        found = choices(build(rows, weight), Target.parse(target))
        return next((c.default for c in found.values()), "plain")

    assert form(512, (32, 256, 256)) == "blocks"
    assert form(2048, (8, 512, 512)) == "blocks"
    assert form(64, (8, 512, 512)) == "plain"  # a copy of each matrix costs more than it saves
    assert form(2048, (1, 512, 512)) == "plain"
    assert form(9, (3, 12, 10)) == "plain"
    assert form(2048, (32, 512, 512), "gfx942") == "plain"
    assert not choices(build(2048, (32, 512, 512)), Target.parse("gfx942"))
