# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention: masks, empty rows, canonical forms, which form is emitted, and what is declined."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import FormatError, GraphError, NotSupportedError
from hipdnn_iree.graph_api.ops.attention import alibi_slopes
from hipdnn_iree.jit import support
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import execute, expect
from under_settings import flags

Run = Callable[..., Any]
CPU = Target.parse("cpu")


def operands(g: Graph, q: Any = (2, 4, 5, 8), k: Any = (2, 2, 6, 8), v: Any = None) -> list[Any]:
    return [g.tensor(dims=d, name=n) for n, d in (("q", q), ("k", k), ("v", v or k))]


def attention(
    make: Callable[[Graph], dict[str, Any]] = lambda g: {}, io: str = "float", **options: Any
) -> Graph:
    """A graph of one attention; ``make`` adds operands."""
    g = Graph(io_data_type=io, compute_data_type="float")
    shapes = {n: options.pop(n) for n in ("q", "k", "v") if n in options}
    for tensor in g.sdpa(*operands(g, **shapes), **make(g), **options, name="a"):
        if tensor is not None:
            tensor.set_output().set_data_type("float" if tensor.given_dims is None else io)
    return g


def add(port: str, *dims: int, data_type: str = "float") -> Callable[[Graph], dict[str, Any]]:
    return lambda g: {port: g.tensor(dims=dims, data_type=data_type)}


def lengths(g: Graph) -> dict[str, Any]:
    shape: Any = {"dims": (2, 1, 1, 1), "data_type": "int32"}
    return {"seq_len_q": g.tensor(**shape), "seq_len_kv": g.tensor(**shape)}


def node(port: str, *dims: int, **options: Any) -> Graph:
    """A graph with an operand that the method does not take."""
    from hipdnn_iree.graph_api.ops.sdpa import Sdpa

    g = Graph(io_data_type="float")
    q, k, v = operands(g)
    extra = {port: g.tensor(dims=dims)} if dims else {}
    results = g.add_node(Sdpa(**options), {"q": q, "k": k, "v": v} | extra, outputs=["o"], name="a")
    results["o"].set_output()
    return g


BROKEN: list[tuple[str, str, Callable[[], Graph]]] = [
    ("ATTN-01", "q", lambda: attention(q=(4, 5, 8))),
    ("ATTN-01", "v", lambda: attention(v=(2, 6, 8))),
    ("ATTN-01", "q", lambda: attention(io="int32")),
    ("ATTN-02", "k", lambda: attention(k=(1, 2, 6, 8), v=(1, 2, 6, 8))),
    ("ATTN-02", "k", lambda: attention(k=(2, 2, 6, 7), v=(2, 2, 6, 8))),
    ("ATTN-02", "v", lambda: attention(v=(2, 2, 5, 8))),
    ("ATTN-03", "k", lambda: attention(k=(2, 3, 6, 8), v=(2, 2, 6, 8))),
    ("ATTN-03", "v", lambda: attention(v=(2, 3, 6, 8))),
    ("ATTN-04", "attn_mask", lambda: attention(add("attn_mask", 2, 2, 5, 6))),
    ("ATTN-04", "attn_mask", lambda: attention(add("attn_mask", 5, 6, data_type="int32"))),
    ("ATTN-05", "scale", lambda: attention(add("scale", 2))),
    ("ATTN-05", "attn_scale_value", lambda: attention(add("scale", 1), attn_scale_value=1.0)),
    ("ATTN-06", "seq_len_q", lambda: attention(lengths)),
    ("ATTN-06", "seq_len_kv", lambda: attention(padding_mask=True)),
    (
        "ATTN-06",
        "seq_len_q",
        lambda: attention(
            lambda g: lengths(g) | {"seq_len_q": g.tensor(dims=(2,), data_type="int32")},
            padding_mask=True,
        ),
    ),
    (
        "ATTN-06",
        "seq_len_q",
        lambda: attention(
            lambda g: lengths(g) | {"seq_len_q": g.tensor(dims=(2, 1, 1, 1))}, padding_mask=True
        ),
    ),
    ("ATTN-07", "left_bound", lambda: attention(left_bound=-2)),
    ("ATTN-08", "causal_mask", lambda: attention(causal_mask=True, causal_mask_bottom_right=True)),
    ("ATTN-08", "right_bound", lambda: attention(causal_mask=True, right_bound=1)),
    (
        "ATTN-08",
        "diagonal_alignment",
        lambda: attention(causal_mask=True, diagonal_alignment="BOTTOM_RIGHT"),
    ),
    ("ATTN-09", "alibi_mask", lambda: attention(alibi_mask=True)),
    ("ATTN-10", "dropout_probability", lambda: attention(dropout_probability=1.0)),
    ("ATTN-11", "dropout_mask", lambda: attention(add("dropout_mask", 3))),
    (
        "ATTN-11",
        "dropout_probability",
        lambda: attention(add("dropout_mask", 6), dropout_probability=0.5),
    ),
    ("ATTN-12", "compute_data_type", lambda: attention(compute_data_type="int32")),
    ("ATTN-13", "attn_scale_value", lambda: attention(attn_scale_value=float("-inf"))),
    ("ATTN-13", "attn_scale_value", lambda: attention(attn_scale_value=float("nan"))),
    ("ATTN-13", "attn_scale_value", lambda: attention(attn_scale_value=1e39)),
    ("SDPA-01", "generate_stats", lambda: node("scale", generate_stats=True)),
    ("SDPA-02", "sink_token", lambda: attention(add("sink_token", 1, 3, 1, 1))),
    ("SDPA-02", "sink_token", lambda: attention(add("sink_token", 1, 4, 1, 1, data_type="int32"))),
    ("SDPA-03", "page_table_k", lambda: attention(add("page_table_k", 2, 1, 3, data_type="int32"))),
    ("SDPA-03", "page_table_v", lambda: attention(add("page_table_v", 2, 1, 1, 1))),
    ("SDPA-04", "max_seq_len_kv", lambda: attention(max_seq_len_kv=5)),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "build"), BROKEN)
def test_a_broken_rule_is_reported(rule: str, port: str, build: Callable[[], Graph]) -> None:
    with pytest.raises(GraphError) as caught:
        build().freeze()
    assert (rule, port) in [(p.rule, p.port) for p in caught.value.problems]


@pytest.mark.parametrize(
    ("rule", "port", "build"),
    [
        ("IREE-SDPA-01", "dropout_probability", lambda: attention(dropout_probability=0.5)),
        ("IREE-SDPA-01", "seed", lambda: attention(add("seed", 1))),
        ("IREE-SDPA-02", "block_mask", lambda: attention(add("block_mask", 2, 4, 1, 1))),
        ("IREE-SDPA-02", "descale_q", lambda: node("descale_q", 1)),
        ("IREE-SDPA-02", "scale_o", lambda: node("scale_o", 1)),
        ("IREE-SDPA-02", "implementation", lambda: attention(implementation="UNIFIED")),
        ("IREE-SDPA-02", "mma_core_mode", lambda: attention(mma_core_mode="half")),
    ],
)
def test_what_is_not_served_is_declined(rule: str, port: str, build: Callable[[], Graph]) -> None:
    graph = build()
    assert (rule, port) in [(p.rule, p.port) for p in support.problems(graph.freeze(), CPU)]
    with pytest.raises(NotSupportedError, match=rule):
        graph.build("cpu", engine="iree")  # PyTorch's serves some


def pages(g: Graph) -> dict[str, Any]:
    return {f"page_table_{n}": g.tensor(dims=(2, 1, 3, 1), data_type="int32") for n in "kv"}


@pytest.mark.parametrize(
    "build",
    [
        lambda: attention(causal_mask=True),
        lambda: attention(left_bound=1),
        lambda: attention(right_bound=0, generate_stats=True),
        lambda: attention(causal_mask_bottom_right=True),
        lambda: attention(right_bound=0, alibi_mask=True),
        lambda: attention(lengths, padding_mask=True, right_bound=0),
        lambda: attention(pages, k=(6, 2, 4, 8)),
    ],
)
def test_gfx9_gets_bounds_and_pages(build: Callable[[], Graph]) -> None:
    assert not list(support.problems(build().freeze(), Target.parse("gfx942")))


@pytest.mark.parametrize(
    ("keys", "options", "declined"),
    [
        (1000, {"left_bound": 3}, True),
        (1000, {"generate_stats": True}, True),
        (1000, {}, False),
        (1024, {"left_bound": 3}, False),
        (250, {"left_bound": 3}, False),
    ],
)
def test_long_odd_rows_are_declined_on_gfx9(
    keys: int, options: dict[str, Any], declined: bool
) -> None:
    # One thread would get such a row, unrolled: more than a minute to compile.
    frozen = attention(k=(2, 2, keys, 8), **options).freeze()
    found = [(p.rule, p.port) for p in support.problems(frozen, Target.parse("gfx942"))]
    assert found == ([("IREE-SDPA-03", "k")] if declined else [])
    assert not list(support.problems(frozen, CPU))


def test_long_rows_are_multiplied_twice_on_gfx9(torch_ir: Run) -> None:
    # No kernel compiles there that both adds up and stores the exponentials of long rows.
    for keys, products in ((128, 3), (64, 2)):
        graph = attention(k=(2, 2, keys, 8), generate_stats=True)
        assert torch_ir(graph, "gfx942").count("torch.aten.bmm") == products
        assert torch_ir(graph, "cpu").count("torch.aten.bmm") == 2


@pytest.mark.parametrize(
    ("depth", "queries", "laid_out", "keys", "copies"),
    [
        (15, 13, "queries", 32, 1),
        (15, 2, "queries", 32, 1),
        (15, 13, "depth", 32, 0),
        (15, 13, "heads", 32, 0),
        (16, 13, "queries", 32, 0),
        (15, 16, "queries", 32, 0),
        # Keys are copied whose rows do not fill a load either: for both matmuls of long rows.
        (15, 16, "queries", 68, 2),
    ],
)
def test_queries_by_rows_of_the_head_dim_are_copied_on_gfx9(
    depth: int, queries: int, laid_out: str, keys: int, copies: int, torch_ir: Run
) -> None:
    """W-071: behind the last row of a head lies the first one of the next."""
    dims = (2, 4, queries, depth)
    strides = {
        "queries": (4 * queries * depth, queries * depth, 1, queries),
        "depth": (4 * queries * depth, queries * depth, depth, 1),
        "heads": (4 * queries * depth, 1, 4 * depth, 4),
    }

    def attention(kind: str) -> Graph:
        g = Graph(io_data_type=kind, compute_data_type="float")
        q = g.tensor(dims=dims, strides=strides[laid_out])
        k, v = (g.tensor(dims=(2, 1, keys, depth)) for _ in "kv")
        for result in g.sdpa(q, k, v, generate_stats=True):
            if result is not None:
                result.set_output()
        return g

    assert torch_ir(attention("half"), "gfx942").count("aten.cat") == copies
    graph = attention("float").freeze()  # halves are copied on CPUs (W-151)
    plan = plan_code(graph, CPU, ("sdpa=composite",))  # heads by themselves are concatenated
    assert "aten.cat" not in lower_graph(graph, CPU, plan)


def test_nan_between_heads_is_not_multiplied() -> None:
    """W-071, emulated: a gap behind the heads holds NaN (random graph 121327)."""
    g = Graph(io_data_type="bfloat16", compute_data_type="float")
    q = g.tensor(dims=(2, 4, 13, 15), strides=(1170, 195, 1, 13))
    k, v = (g.tensor(dims=(2, 1, 8, 15)) for _ in "kv")
    for result in g.sdpa(q, k, v, generate_stats=True):
        if result is not None:
            result.set_output()
    check_emulated(g)


def test_distances_are_not_a_table(torch_ir: Run) -> None:
    # Hoisted, j - i would be a table of all pairs that a kernel fills when the module is loaded.
    frozen = attention(left_bound=1).freeze()
    for target in (CPU, Target.parse("gfx942")):
        assert "--iree-opt-const-expr-hoisting=false" in flags(frozen, target)
    # Slopes of ALiBi are computed on gfx9: kernels with tables cannot be checked by emulation.
    text = torch_ir(attention(right_bound=0, alibi_mask=True), "gfx942")
    assert "aten.exp2" in text
    assert "aten.exp2" not in torch_ir(attention(right_bound=0, alibi_mask=True), "cpu")


@pytest.mark.parametrize(("queries", "split"), [(6, True), (10, True), (8, False), (22, False)])
def test_small_products_are_cut_in_two_on_gfx9(queries: int, split: bool, torch_ir: Run) -> None:
    # IREE 3.13 ends by SIGSEGV for an even number of products of 6 or 10 rows and few columns.
    graph = attention(q=(2, 2, queries, 8), k=(2, 2, 12, 8), v=(2, 2, 12, 32), generate_stats=True)
    for target, expected in (("gfx942", 3 if split else 2), ("sm_80", 2)):
        text = torch_ir(graph, target)
        found = text.count("torch.aten.bmm") + text.count("torch.aten.mm")
        assert found == expected, target


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"causal_mask": True}, {"right_bound": 0}),
        (
            {"causal_mask_bottom_right": True},
            {"right_bound": 0, "diagonal_alignment": "BOTTOM_RIGHT"},
        ),
        ({"left_bound": -1, "diagonal_alignment": "BOTTOM_RIGHT"}, {}),
        ({"dropout_probability": 0.0}, {}),
        ({"max_seq_len_kv": 6}, {}),
    ],
)
def test_two_spellings_are_the_same_graph(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert attention(**one).digest == attention(**other).digest
    assert attention(**one).digest != attention(left_bound=0).digest


def test_json_keeps_every_option() -> None:
    graph = attention(
        lambda g: lengths(g) | add("attn_mask", 5, 6, data_type="boolean")(g),
        padding_mask=True,
        left_bound=3,
        right_bound=0,
        alibi_mask=True,
        diagonal_alignment="BOTTOM_RIGHT",
        attn_scale_value=0.5,
        generate_stats=True,
        mma_core_mode="float",
    )
    text = graph.to_json()
    assert '"SdpaAttributes"' in text
    assert Graph.from_json(text).digest == graph.digest


def test_older_json_has_the_parameters_elsewhere() -> None:
    graph = attention(left_bound=3, right_bound=1, attn_scale_value=0.5, generate_stats=True)
    data = json.loads(graph.to_json())
    (node_,) = data["nodes"]
    node_["parameters"] = node_.pop("attributes")
    assert Graph.from_json(json.dumps(data)).digest == graph.digest
    # A key that is in both places counts where it is now.
    node_["attributes"] = {"left_bound": None, "right_bound": 0}
    expected = attention(right_bound=0, attn_scale_value=0.5, generate_stats=True)
    assert Graph.from_json(json.dumps(data)).digest == expected.digest
    node_["parameters"] = [1]
    with pytest.raises(FormatError, match="JSON-04"):
        Graph.from_json(json.dumps(data))


def visible(queries: int, keys: int, left: int, right: int, bottom: bool) -> Any:
    """Which key a query sees, by hipDNN's loops: -1 is open."""
    seen = np.ones((queries, keys), dtype=bool)
    offset = keys - queries if bottom else 0
    for i in range(queries):
        for j in range(keys):
            if right >= 0 and j >= max(i + 1 + offset + right, 0):
                seen[i, j] = False
            if left >= 0 and j < i + offset - left:
                seen[i, j] = False
    return seen


@pytest.mark.parametrize("alignment", ["TOP_LEFT", "BOTTOM_RIGHT"])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (4, 7), (7, 3)])
def test_the_reference_sees_what_hipdnn_sees(queries: int, keys: int, alignment: str) -> None:
    for left in (-1, 0, 2):
        for right in (-1, 0, 1):
            graph = attention(
                q=(1, 1, queries, 8),
                k=(1, 1, keys, 8),
                v=(1, 1, keys, keys),
                left_bound=left,
                right_bound=right,
                diagonal_alignment=alignment,
            )
            frozen = graph.freeze()
            inputs = verify.random_inputs(frozen)
            # With the identity for values the result is the matrix of weights.
            inputs[graph.tensors[2].uid][...] = np.eye(keys)
            (weights,) = execute(frozen, inputs).values()
            expected = visible(queries, keys, left, right, alignment == "BOTTOM_RIGHT")
            assert np.array_equal(weights[0, 0] > 0, expected)
            assert np.allclose(weights[0, 0].sum(-1), expected.any(-1))


def test_rows_that_see_nothing_are_zero(run: Run) -> None:
    options = {"generate_stats": True, "generate_max": True, "generate_sum_exp": True}
    graph = attention(add("attn_mask", 5, 6), **options)
    rng = np.random.default_rng(0)
    q, k, v, mask = graph.tensors[:4]
    bias = rng.standard_normal((5, 6)).astype(np.float32)
    bias[2] = -np.inf
    bias[4, 1:] = -np.inf
    data = {
        t: rng.standard_normal(d).astype(np.float32)
        for t, d in ((q, (2, 4, 5, 8)), (k, (2, 2, 6, 8)), (v, (2, 2, 6, 8)))
    }
    o, stats, largest, total = run(graph, {**data, mask: bias})
    assert np.array_equal(o[:, :, 2], np.zeros_like(o[:, :, 2]))
    assert np.isneginf(stats[:, :, 2]).all()
    assert np.isneginf(largest[:, :, 2]).all()
    assert (total[:, :, 2] == 0).all()
    # The last row sees the first key only.
    assert np.allclose(o[:, :, 4], data[v][:, :, 0].repeat(2, 1))
    assert np.isfinite(np.delete(o, 2, 2)).all()


def test_huge_logits_do_not_overflow(run: Run) -> None:
    graph = attention(q=(1, 1, 3, 8), k=(1, 1, 4, 8))
    q, k, v = graph.tensors[:3]
    rng = np.random.default_rng(1)
    data = {
        q: np.full((1, 1, 3, 8), 300, np.float32),
        k: rng.integers(-3, 4, (1, 1, 4, 8)).astype(np.float32) * 100,
        v: rng.standard_normal((1, 1, 4, 8)).astype(np.float32),
    }
    (o,) = run(graph, data)
    best = data[k].sum(-1).argmax()
    assert np.allclose(o[0, 0], data[v][0, 0, best])


def test_long_rows_in_half_precision(check: Run) -> None:
    # Summed in half precision 4096 weights of about 1/4096 would be off by per cents.
    g = Graph("long", io_data_type="half", compute_data_type="float")
    q, k, v = operands(g, (1, 1, 2, 8), (1, 1, 4096, 8))
    g.sdpa(q, k, v, attn_scale_value=0.01).o.set_output()
    check(g.freeze())


def test_pages_read_in_order_are_the_plain_result(run: Run) -> None:
    rng = np.random.default_rng(2)
    k, v = (rng.standard_normal((2, 2, 12, 8)).astype(np.float32) for _ in "kv")
    q = rng.standard_normal((2, 4, 5, 8)).astype(np.float32)
    plain = attention(k=(2, 2, 12, 8), max_seq_len_kv=12)
    (expected,) = run(plain, dict(zip(plain.tensors[:3], (q, k, v), strict=True)))
    order = rng.permutation(6)
    table = np.argsort(order).reshape(2, 1, 3, 1).astype(np.int32)
    pages = [x.reshape(2, 2, 3, 4, 8).swapaxes(1, 2).reshape(6, 2, 4, 8)[order] for x in (k, v)]

    def tables(g: Graph) -> dict[str, Any]:
        return {f"page_table_{n}": g.tensor(dims=(2, 1, 3, 1), data_type="int32") for n in "kv"}

    paged = attention(tables, k=(6, 2, 4, 8))
    given = (q, *pages, table, table)
    (found,) = run(paged, dict(zip(paged.tensors[:5], given, strict=True)))
    assert np.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12])
def test_slopes_of_alibi(heads: int) -> None:
    slopes = alibi_slopes(heads)
    n = 2 ** int(np.log2(heads))
    assert np.allclose(slopes[:n], [2 ** (-8 / n * (h + 1)) for h in range(n)])
    # The rest are every other slope of twice as many heads.
    assert np.allclose(
        slopes[n:], [2 ** (-4 / n * (h + 1)) for h in range(2 * n)][::2][: heads - n]
    )


FAULTS: dict[str, Callable[[Any, Any, Any], tuple[Any, Any, Any, float]]] = {
    "heads interleaved": lambda q, k, v: (q, np.tile(k, (1, 2, 1, 1)), np.tile(v, (1, 2, 1, 1)), 1),
    "scale of 1/D": lambda q, k, v: (q, k.repeat(2, 1), v.repeat(2, 1), 8**-0.5),
    "no scale": lambda q, k, v: (q, k.repeat(2, 1), v.repeat(2, 1), 8**0.5),
    "last key dropped": lambda q, k, v: (q, *(x.repeat(2, 1)[:, :, :-1] for x in (k, v)), 1),
    "scale off by 1 in 1000": lambda q, k, v: (q, k.repeat(2, 1), v.repeat(2, 1), 1.001),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_result_is_found(fault: str) -> None:
    graph = attention()
    frozen = graph.freeze()
    inputs = verify.random_inputs(frozen, seed=3)
    q, k, v = (inputs[t.uid].astype(np.float64) for t in graph.tensors[:3])
    q, k, v, factor = FAULTS[fault](q, k, v)
    s = factor * 8**-0.5 * q @ k.swapaxes(2, 3)
    p = np.exp(s - s.max(-1, keepdims=True))
    o = (p / p.sum(-1, keepdims=True)) @ v
    (uid,) = frozen.outputs
    report = verify.compare(frozen, {uid: o.astype(np.float32)}, expect(frozen, inputs))
    assert not report.ok


def test_gfx9_gets_the_fused_kernel_where_it_computes_the_same(torch_ir: Run) -> None:
    fused = "aten.scaled_dot_product_attention"
    for options in ({}, {"right_bound": 0}, {"attn_scale_value": 0.3}):
        text = torch_ir(attention(io="half", **options), "gfx942")
        assert fused in text
        assert "aten.exp" not in text
        assert fused not in torch_ir(attention(io="half", **options), "cpu")
    for options in (
        {"generate_stats": True},
        {"left_bound": 1},
        {"causal_mask_bottom_right": True},
    ):
        assert fused not in torch_ir(attention(io="half", **options), "gfx942")


def test_attention_is_compiled_without_data_tiling_on_the_cpu() -> None:
    # IREE 3.13 mixes up the batches of data-tiled products that are fused with a division.
    off = "--iree-dispatch-creation-data-tiling=false"
    assert off in flags(attention().freeze(), Target.parse("cpu:znver3"))
    assert off not in flags(attention().freeze(), Target.parse("gfx942"))
