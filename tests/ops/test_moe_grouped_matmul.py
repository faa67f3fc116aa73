# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mixtures of experts: hipDNN's own definition, tables it forbids, NaN, rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.jit.inspect import inspect_graph
from hipdnn_iree.jit.options import BuildOptions
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.reference import execute

Run = Callable[..., Any]
Array = np.ndarray[Any, Any]
TOKENS, EXPERTS, WIDTH, OUT = 8, 4, 6, 5


def mixture(
    mode: str = "none", rows: int = 0, groups: int = EXPERTS, top_k: int = 0
) -> tuple[Graph, dict[str, Any], Any]:
    g = Graph(io_data_type="float")
    shapes = {"token": (1, TOKENS, WIDTH), "weight": (EXPERTS, WIDTH, OUT)}
    inputs: dict[str, Any] = {n: g.tensor(dims=d, name=n) for n, d in shapes.items()}
    tables = {"first_token_offset": (groups, 1, 1)}
    if mode != "none":
        tables["token_index"] = (1, rows, 1)
    if mode == "scatter":
        tables["token_ks"] = (1, rows, 1)
    inputs |= {n: g.tensor(dims=d, data_type="int32", name=n) for n, d in tables.items()}
    y = g.moe_grouped_matmul(**inputs, mode=mode, top_k=top_k)
    return g, inputs, y.set_output()


def by_group(mode: str, top_k: int, values: dict[str, Array], out_rows: int) -> Array:
    """hipDNN's definition, a group at a time, for tables that it allows."""
    token, weight = values["token"][0], values["weight"]
    offsets = [int(v) for v in values["first_token_offset"].ravel()]
    total = values["token_index"].size if mode == "gather" else len(token)
    y = np.zeros((1, out_rows, weight.shape[2]))
    for group, start in enumerate(offsets):
        end = offsets[group + 1] if group + 1 < len(offsets) else total
        for r in range(start, end):
            source = int(values["token_index"].ravel()[r]) if mode == "gather" else r
            place = r
            if mode == "scatter":
                index, ks = (int(values[p].ravel()[r]) for p in ("token_index", "token_ks"))
                place = index * top_k + ks
            y[0, place] = token[source].astype(np.float64) @ weight[group % len(weight)]
    return y


def random_values(mode: str, rows: int, groups: int, top_k: int, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    values: dict[str, Array] = {
        "token": rng.standard_normal((1, TOKENS, WIDTH)).astype(np.float32),
        "weight": rng.standard_normal((EXPERTS, WIDTH, OUT)).astype(np.float32),
        "first_token_offset": np.sort(rng.integers(0, (rows or TOKENS) + 1, (groups, 1, 1)), 0),
    }
    if mode == "gather":
        values["token_index"] = rng.integers(0, TOKENS, (1, rows, 1))
    if mode == "scatter":
        places = rng.permutation(TOKENS)[:rows].reshape(1, rows, 1)
        values["token_index"], values["token_ks"] = places // top_k, places % top_k
    ints = ("first_token_offset", "token_index", "token_ks")
    return {n: v.astype(np.int32) if n in ints else v for n, v in values.items()}


@pytest.mark.parametrize(
    ("mode", "rows", "groups", "top_k"),
    [
        ("none", 0, EXPERTS, 0),
        ("none", 0, 3 * EXPERTS, 0),
        ("gather", 11, EXPERTS, 0),
        ("scatter", TOKENS, EXPERTS, 1),
        ("scatter", TOKENS, EXPERTS, 2),
        ("scatter", TOKENS, 2 * EXPERTS, 4),
    ],
)
def test_the_definition_of_hipdnn(run: Run, mode: str, rows: int, groups: int, top_k: int) -> None:
    g, tensors, y = mixture(mode, rows, groups, top_k)
    for seed in range(5):
        values = random_values(mode, rows, groups, top_k, seed)
        given = {tensors[n]: v for n, v in values.items()}
        (got,) = run(g, given)
        expected = by_group(mode, top_k, values, got.shape[1])
        np.testing.assert_allclose(got, expected, atol=1e-5)
        reference = execute(g.freeze(), {t.uid: v for t, v in given.items()})[y.uid]
        np.testing.assert_allclose(reference, expected, atol=1e-12)


def test_weights_of_other_experts_do_not_matter_whatever_they_are(run: Run) -> None:
    g, tensors, _ = mixture()
    values = random_values("none", 0, EXPERTS, 0, 3)
    values["first_token_offset"][:] = np.array([0, 8, 8, 8]).reshape(-1, 1, 1)
    values["weight"][1:] = np.nan
    (got,) = run(g, {tensors[n]: v for n, v in values.items()})
    np.testing.assert_allclose(got[0], values["token"][0] @ values["weight"][0], atol=1e-5)


def test_tables_that_hipdnn_forbids_read_nothing_outside(run: Run) -> None:
    far = 2**31 - 1
    g, tensors, _ = mixture("gather", 4)
    values = random_values("gather", 4, EXPERTS, 0, 0)
    values["first_token_offset"][:] = 0
    values["token_index"][:] = np.array([-5, far, TOKENS, 2]).reshape(1, 4, 1)
    (got,) = run(g, {tensors[n]: v for n, v in values.items()})
    rows = values["token"][0][[0, TOKENS - 1, TOKENS - 1, 2]]
    np.testing.assert_allclose(got[0], rows @ values["weight"][-1], atol=1e-5)
    g, tensors, _ = mixture("scatter", TOKENS, EXPERTS, 1)
    values = random_values("scatter", TOKENS, EXPERTS, 1, 0)
    values["first_token_offset"][:] = 0
    values["token_index"][:] = np.array([-1, far, TOKENS, 2, 2, 2, 0, 0]).reshape(1, 8, 1)
    values["token_ks"][:] = 0
    (got,) = run(g, {tensors[n]: v for n, v in values.items()})
    expected = np.zeros((TOKENS, OUT))
    expected[[0, 2]] = values["token"][0][[6, 3]] @ values["weight"][-1]
    np.testing.assert_allclose(got[0], expected, atol=1e-5)


def refusal(rule: str, **change: Any) -> str:
    """Return what is said of a product with some operands of other dims or types."""
    g = Graph(io_data_type="float")
    dims: dict[str, Any] = {
        "token": (1, 8, 6),
        "weight": (4, 6, 5),
        "first_token_offset": (4, 1, 1),
        **{n: d for n, d in change.items() if isinstance(d, tuple)},
    }
    kinds = dict.fromkeys(("first_token_offset", "token_index", "token_ks"), "int32")
    kinds |= {n.removesuffix("_type"): t for n, t in change.items() if n.endswith("_type")}
    inputs = {n: g.tensor(dims=d, data_type=kinds.get(n, "float")) for n, d in dims.items()}
    options = {n: change[n] for n in ("mode", "top_k") if n in change}
    g.moe_grouped_matmul(**inputs, **options, name="moe").set_output()
    with pytest.raises(GraphError) as caught:
        g.validate()
    found = [p for p in caught.value.problems if p.rule == rule]
    assert found, caught.value
    return f"{found[0].port}: got {found[0].got}; wanted {found[0].wanted}"


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    ("rule", "change", "said"),
    [
        ("MOE-01", {"token": (8, 6)}, "token: got dims [8, 6]; wanted (1, rows, width)"),
        ("MOE-01", {"token": (2, 8, 6)}, "token: got dims [2, 8, 6]"),
        ("MOE-01", {"weight": (6, 5)}, "weight: got dims [6, 5]; wanted (experts, in, out)"),
        ("MOE-02", {"weight": (4, 7, 5)}, "weight: got dims[1] = 7; wanted 6, as token's"),
        ("MOE-03", {"first_token_offset": (6, 1, 1)}, "multiple of the 4 experts"),
        ("MOE-03", {"first_token_offset": (4,)}, "first_token_offset: got dims [4]"),
        ("MOE-03", {"first_token_offset_type": "int64"}, "got int64; wanted int32"),
        ("MOE-04", {"mode": "gather"}, "token_index: got no tensor; wanted a tensor in mode"),
        ("MOE-04", {"token_ks": (1, 8, 1)}, "token_ks: got a tensor; wanted none in mode none"),
        ("MOE-05", {"mode": "gather", "token_index": (8,)}, "token_index: got dims [8]"),
        (
            "MOE-05",
            {"mode": "gather", "token_index": (1, 8, 1), "token_index_type": "float"},
            "token_index: got float; wanted int32",
        ),
        (
            "MOE-05",
            {"mode": "scatter", "token_index": (1, 8, 1), "token_ks": (1, 7, 1), "top_k": 1},
            "token_ks: got 7 rows; wanted 8, as token_index",
        ),
        (
            "MOE-05",
            {"mode": "scatter", "token_index": (8,), "token_ks": (1, 7, 1), "top_k": 1},
            "token_index: got dims [8]",
        ),
        *(
            (
                "MOE-06",
                {"mode": "scatter", "token_index": (1, 8, 1), "token_ks": (1, 8, 1), "top_k": k},
                f"top_k: got {k}; wanted from 1 to 4",
            )
            for k in (0, 5)
        ),
    ],
)
def test_rules(rule: str, change: dict[str, Any], said: str) -> None:
    assert said in refusal(rule, **change)


def test_rows_are_counted_in_a_kernel_of_their_own_on_gfx9(tmp_path: Path) -> None:
    """Else what selects elements of the rows was shared out over counts: 4 workgroups of 64."""
    g, *_ = mixture()
    options = BuildOptions.of(settings())
    found = inspect_graph(g.freeze(), Target.parse("gfx942"), tmp_path, options)
    assert [d.name for d in found.dispatches if d.name.endswith("_i32")] == [
        f"main$async_dispatch_0_reduction_{TOKENS}x{EXPERTS}_i32"
    ]
    check_emulated(g)
