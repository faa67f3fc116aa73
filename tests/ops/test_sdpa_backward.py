# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of attention: the reference against finite differences, rules, and single points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError, NotSupportedError
from hipdnn_iree.graph_api.ops.sdpa_backward import SdpaBackward
from hipdnn_iree.jit import support
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import execute, expect
from under_settings import flags

Run = Callable[..., Any]
CPU = Target.parse("cpu")
Q, K, V, ROWS = (2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 3), (2, 4, 5, 3)


def gradient(
    io: str = "float", extra: dict[str, Any] | None = None, name: str = "b", **options: Any
) -> Graph:
    """A graph of one gradient; ``extra`` maps further ports to (dims, data type)."""
    shapes = {"q": Q, "k": K, "v": V, "o": ROWS, "do": ROWS, "stats": (*Q[:3], 1)}
    shapes |= {port: options.pop(port) for port in tuple(shapes) if port in options}
    kinds = {port: options.pop(f"{port}_type") for port in shapes if f"{port}_type" in options}
    g = Graph(io_data_type=io, compute_data_type="float")
    operands = [g.tensor(dims=d, data_type=kinds.get(p, io), name=p) for p, d in shapes.items()]
    more = {p: g.tensor(dims=d, data_type=t, name=p) for p, (d, t) in (extra or {}).items()}
    for result in g.sdpa_backward(*operands, **more, **options, name=name):
        if result is not None:
            result.set_output()
    return g


LENGTHS = dict.fromkeys(("seq_len_q", "seq_len_kv"), ((2, 1, 1, 1), "int32"))
BIAS = {"attn_mask": ((5, 6), "float")}

BROKEN: list[tuple[str, str, Callable[[], Graph]]] = [
    ("SDPABWD-01", "o", lambda: gradient(o=Q)),
    ("SDPABWD-01", "do", lambda: gradient(do=(2, 4, 5))),
    ("SDPABWD-01", "do", lambda: gradient(do_type="int32")),
    ("SDPABWD-02", "stats", lambda: gradient(stats=(2, 4, 5))),
    ("SDPABWD-02", "stats", lambda: gradient(stats_type="int32")),
    ("SDPABWD-03", "dbias", lambda: gradient(generate_dbias=True)),
    (
        "SDPABWD-03",
        "dbias",
        lambda: gradient(extra={"attn_mask": ((5, 6), "boolean")}, generate_dbias=True),
    ),
    ("ATTN-01", "q", lambda: gradient(q=(4, 5, 8))),
    ("ATTN-02", "k", lambda: gradient(k=(1, 2, 6, 8))),
    ("ATTN-03", "v", lambda: gradient(v=(2, 3, 6, 3))),
    ("ATTN-04", "attn_mask", lambda: gradient(extra={"attn_mask": ((3, 6), "float")})),
    (
        "ATTN-05",
        "dropout_scale_inv",
        lambda: gradient(extra={"dropout_scale_inv": ((2,), "float")}),
    ),
    ("ATTN-06", "seq_len_q", lambda: gradient(padding_mask=True)),
    ("ATTN-07", "left_bound", lambda: gradient(left_bound=-3)),
    ("ATTN-09", "alibi_mask", lambda: gradient(alibi_mask=True)),
    ("ATTN-12", "compute_data_type", lambda: gradient(compute_data_type="int32")),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "build"), BROKEN)
def test_a_broken_rule_is_reported(rule: str, port: str, build: Callable[[], Graph]) -> None:
    with pytest.raises(GraphError) as caught:
        build().freeze()
    assert (rule, port) in [(p.rule, p.port) for p in caught.value.problems]


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize(
    ("port", "build"),
    [
        ("dropout_probability", lambda: gradient(dropout_probability=0.5)),
        ("seed", lambda: gradient(extra={"seed": ((1,), "int64")})),
        ("offset", lambda: gradient(extra={"offset": ((1,), "int64")})),
    ],
)
def test_random_dropout_is_declined(port: str, build: Callable[[], Graph], target: str) -> None:
    graph = build()
    found = support.problems(graph.freeze(), Target.parse(target))
    assert ("IREE-SDPA-01", port) in [(p.rule, p.port) for p in found]
    with pytest.raises(NotSupportedError, match="IREE-SDPA-01"):
        graph.build("cpu")


def test_json_keeps_every_option() -> None:
    extra = {
        **LENGTHS,
        **BIAS,
        "scale": ((1,), "float"),
        "dropout_mask": ((5, 6), "float"),
        "dropout_scale": ((1,), "float"),
        "dropout_scale_inv": ((1,), "float"),
    }
    options = {"padding_mask": True, "left_bound": 3, "right_bound": 0, "alibi_mask": True}
    graph = gradient(extra=extra, generate_dbias=True, diagonal_alignment="BOTTOM_RIGHT", **options)
    text = graph.to_json()
    assert '"SdpaBackwardAttributes"' in text
    assert '"parameters"' in text
    assert '"do_tensor_uid"' in text
    again = Graph.from_json(text)
    assert again.digest == graph.digest
    assert set(again.freeze().nodes[0].inputs) == set(graph.freeze().nodes[0].inputs)
    assert gradient().digest != graph.digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"causal_mask": True}, {"right_bound": 0}),
        ({"left_bound": -1, "diagonal_alignment": "BOTTOM_RIGHT"}, {}),
        ({"dropout_probability": 0.0}, {}),
    ],
)
def test_two_spellings_are_the_same_graph(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert gradient(**one).digest == gradient(**other).digest
    assert gradient(**one).digest != gradient(left_bound=0).digest


# What the derivative is taken of: further operands, parameters, and whether there is a bias.
DERIVATIVES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "scale": ({"scale": ((1,), "double")}, {}),
    "scale value, causal": ({}, {"attn_scale_value": 0.7, "right_bound": 0}),
    "window": ({}, {"left_bound": 1, "right_bound": 1, "diagonal_alignment": "BOTTOM_RIGHT"}),
    "empty rows": ({}, {"left_bound": 0, "right_bound": 1, "k": (2, 2, 3, 8), "v": (2, 2, 3, 3)}),
    "alibi": ({}, {"alibi_mask": True, "right_bound": 0}),
    "padding": (LENGTHS, {"padding_mask": True, "right_bound": 0}),
    "bias": ({"attn_mask": ((2, 1, 5, 6), "double")}, {}),
    "bias over rows": ({"attn_mask": ((6,), "double")}, {"right_bound": 1}),
    "boolean mask": ({"attn_mask": ((5, 6), "boolean")}, {}),
    "dropout": ({"dropout_mask": ((4, 5, 6), "double"), "dropout_scale": ((1,), "double")}, {}),
    "sink": ({"sink_token": ((1, 4, 1, 1), "double")}, {}),
    "one head": ({}, {"k": (2, 1, 6, 8), "v": (2, 4, 6, 3)}),
}


def _values(dims: Any, kind: str, port: str, rng: np.random.Generator) -> Any:
    if kind == "boolean":
        return rng.random(dims) < 0.6
    if kind == "int32":
        return rng.integers(1, 6, dims).astype(np.int32)
    if port == "dropout_mask":
        return (rng.random(dims) < 0.7).astype(np.float64)
    return rng.standard_normal(dims)


@pytest.mark.parametrize("case", DERIVATIVES)
def test_the_reference_is_the_derivative(case: str) -> None:
    extra, options = DERIVATIVES[case]
    options = dict(options)
    shapes = {p: options.pop(p, d) for p, d in (("q", Q), ("k", K), ("v", V))}
    rng = np.random.default_rng(4)
    given = {p: _values(d, t, p, rng) for p, (d, t) in extra.items()}
    main = {p: rng.standard_normal(d) for p, d in shapes.items()}
    do = rng.standard_normal(ROWS)
    biased = "attn_mask" in extra and extra["attn_mask"][1] == "double"

    def start() -> tuple[Graph, list[Any], dict[str, Any]]:
        g = Graph(io_data_type="double", compute_data_type="double")
        operands = [g.tensor(dims=d) for d in shapes.values()]
        return g, operands, {p: g.tensor(dims=d, data_type=t) for p, (d, t) in extra.items()}

    g, operands, more = start()
    o, stats, _, _ = g.sdpa(*operands, **more, **options, generate_stats=True)
    assert stats is not None
    # Shrunk to a number: the sum of o · do.
    tdo = g.tensor(dims=ROWS)
    back = {p: t for p, t in more.items() if p != "sink_token"}
    results = g.sdpa_backward(*operands, o, tdo, stats, **back, **options, generate_dbias=biased)
    for t in (*results, o):
        if t is not None:
            t.set_output()
    frozen = g.freeze()
    uids = {p: t.uid for p, t in zip(main, operands, strict=True)}
    uids |= {p: t.uid for p, t in more.items()} | {"do": tdo.uid}
    arrays = main | given | {"do": do}
    found = execute(frozen, {uids[p]: a for p, a in arrays.items()})

    f, forward_operands, forward_more = start()
    fo = f.sdpa(*forward_operands, **forward_more, **options).o.set_output()
    forward = f.freeze()
    places = {p: t.uid for p, t in zip(main, forward_operands, strict=True)}
    places |= {p: t.uid for p, t in forward_more.items()}

    def loss(moved: dict[str, Any]) -> Any:
        values = execute(forward, {places[p]: a for p, a in (main | given | moved).items()})
        return (values[fo.uid] * do).sum()

    ports = [*main, *(["attn_mask"] if biased else [])]
    for port, result in zip(ports, results, strict=False):
        assert result is not None
        x, derivative = arrays[port], found[result.uid]
        assert np.abs(derivative).max() > 0.01
        # A sample of single elements, and one random direction through all of them.
        picks = [tuple(rng.integers(0, n) for n in x.shape) for _ in range(12)]
        steps = [np.zeros(x.shape) for _ in picks]
        for step, at in zip(steps, picks, strict=True):
            step[at] = 1
        steps.append(rng.standard_normal(x.shape))
        for step in steps:
            ends = [loss({port: x + sign * 1e-5 * step}) for sign in (1, -1)]
            assert abs((ends[0] - ends[1]) / 2e-5 - (derivative * step).sum()) < 2e-8


FAULTS: dict[str, Callable[[Any, Any, Any, Any, Any], Any]] = {
    "delta dropped": lambda p, dp, delta, q, k: p * dp,
    "not scaled": lambda p, dp, delta, q, k: p * (dp - delta) * 8**0.5,
    "half sums of p": lambda p, dp, delta, q, k: p.astype(np.float16) * (dp - delta),
    "delta of another row": lambda p, dp, delta, q, k: p * (dp - np.roll(delta, 1, -2)),
    "p off by 1 in 1000": lambda p, dp, delta, q, k: 1.001 * p * (dp - delta),
}


@pytest.mark.parametrize("fault", [*FAULTS, ""])
def test_a_wrong_result_is_found(fault: str) -> None:
    graph = gradient(k=(2, 4, 6, 8), v=(2, 4, 6, 3))
    frozen = graph.freeze()
    inputs = verify.random_inputs(frozen, seed=3)
    q, k, v, o, do, stats = (inputs[t.uid].astype(np.float64) for t in graph.tensors[:6])
    p = np.exp(8**-0.5 * q @ k.swapaxes(2, 3) - stats)
    dp, delta = do @ v.swapaxes(2, 3), (do * o).sum(-1, keepdims=True)
    ds = FAULTS[fault](p, dp, delta, q, k) if fault else p * (dp - delta)
    scale = 8**-0.5
    values = (scale * ds @ k, scale * ds.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ do)
    results = {u: x.astype(np.float32) for u, x in zip(frozen.outputs, values, strict=True)}
    report = verify.compare(frozen, results, expect(frozen, inputs))
    assert report.ok == (not fault)


def test_heads_that_share_one_are_added(run: Run) -> None:
    rng = np.random.default_rng(5)
    shapes = {"q": Q, "k": K, "v": V, "o": ROWS, "do": ROWS, "stats": (*Q[:3], 1)}
    data = {p: rng.standard_normal(d).astype(np.float32) for p, d in shapes.items()}
    graph = gradient()
    found = run(graph, {t: data[t.name] for t in graph.tensors[:6]})
    single = gradient(k=(2, 4, 6, 8), v=(2, 4, 6, 3))
    repeated = data | {p: data[p].repeat(2, 1) for p in ("k", "v")}
    apart = run(single, {t: repeated[t.name] for t in single.tensors[:6]})
    assert np.allclose(found[0], apart[0], atol=1e-5)
    for together, each in zip(found[1:], apart[1:], strict=True):
        added = each.reshape(2, 2, 2, *each.shape[2:]).sum(2)
        assert np.allclose(together, added, atol=1e-5)
        assert np.abs(together).max() > 0.1


def test_rows_that_see_nothing_contribute_nothing(run: Run) -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    q, k, v, do = (g.tensor(dims=d) for d in (Q, K, V, ROWS))
    bias = g.tensor(dims=(5, 6))
    o, stats, _, _ = g.sdpa(q, k, v, attn_mask=bias, generate_stats=True)
    assert stats is not None
    for t in g.sdpa_backward(q, k, v, o, do, stats, attn_mask=bias, generate_dbias=True):
        assert t is not None
        t.set_output()
    rng = np.random.default_rng(6)
    data = {t: rng.standard_normal(t.dims).astype(np.float32) for t in (q, k, v, do)}
    mask = rng.standard_normal((5, 6)).astype(np.float32)
    mask[2] = -np.inf
    mask[4, 1:] = -np.inf
    found = run(g, {**data, bias: mask})
    assert all(np.isfinite(x).all() for x in found)
    dq, dk, _, dbias = found
    assert (dq[:, :, 2] == 0).all()
    assert (dbias[2] == 0).all()
    # The last row sees one key only, whose weight cannot change.
    assert np.abs(dq[:, :, 4]).max() < 1e-5
    assert np.abs(dk).max() > 0.1
    moved = run(g, {**data, bias: mask, do: data[do] * (np.arange(5) != 2)[:, None]})
    assert all(np.array_equal(a, b) for a, b in zip(found, moved, strict=True))


def test_long_sums_in_half_precision(check: Run) -> None:
    # 4096 queries of 2 heads share a key: summed in half precision dk and dv would stall.
    g = Graph("long", io_data_type="half", compute_data_type="float")
    q, k, v = (g.tensor(dims=d) for d in ((1, 2, 4096, 8), (1, 1, 3, 8), (1, 1, 3, 8)))
    o, do = g.tensor(dims=(1, 2, 4096, 8)), g.tensor(dims=(1, 2, 4096, 8))
    stats = g.tensor(dims=(1, 2, 4096, 1), data_type="float")
    for t in g.sdpa_backward(q, k, v, o, do, stats)[:3]:
        t.set_output().set_data_type("float")
    check(g.freeze())


def test_products_take_halves_on_gfx9_only(torch_ir: Run) -> None:
    def products(target: str) -> list[str]:
        graph = gradient(io="half", stats_type="float")
        lines = torch_ir(graph, target, "sdpa_backward=plain").splitlines()
        return [line for line in lines if "aten.bmm" in line]

    for target, operand in (("cpu", "f32"), ("gfx942", "f16")):
        found = products(target)
        assert len(found) == 5
        back = [line for line in found if line.count(operand) >= 2]
        assert len(back) == (3 if operand == "f32" else 5), found
        assert all(line.rstrip().endswith("f32>") for line in found)


@pytest.mark.parametrize(("keys", "depth", "copies"), [(9, 8, 4), (32, 8, 0), (9, 32, 2)])
def test_operands_of_ragged_rows_are_copied_where_gfx9_needs_it(
    keys: int, depth: int, copies: int, torch_ir: Run
) -> None:
    # W-071: the gradients of k and v sum over 5 rows, and their transposed left operands have 9
    # columns; the scores, and the gradient of the weights, sum over 8 for 9 columns of k and v.
    graph = gradient(
        io="half",
        q=(1, 3, 5, depth),
        k=(1, 3, keys, depth),
        v=(1, 3, keys, depth),
        o=(1, 3, 5, depth),
        do=(1, 3, 5, depth),
        stats=(1, 3, 5, 1),
    )
    for target, expected in (("gfx942", copies), ("cpu", 0)):
        assert torch_ir(graph, target).count("torch.aten.cat") == expected


@pytest.mark.parametrize(("by_rows", "copies"), [(True, 2), (False, 0)])
def test_heads_by_rows_of_the_head_dim_are_copied_on_gfx9(
    by_rows: bool, copies: int, torch_ir: Run
) -> None:
    # W-071: the 2 rows of 8 heads are the 16 of one matrix, which sums over 15 elements.
    dims, kept, stats = (2, 8, 2, 15), (2, 1, 16, 15), (2, 8, 2, 1)
    strides = (240, 30, 1, 2) if by_rows else (240, 30, 15, 1)
    # Halves that are used 16 times are copied on CPUs (W-151).
    for target, kind, expected in (("gfx942", "half", copies), ("cpu", "float", 0)):
        g = Graph(io_data_type=kind, compute_data_type="float")
        q, do = (g.tensor(dims=dims, strides=strides) for _ in "qd")
        k, v = (g.tensor(dims=kept) for _ in "kv")
        rows = g.tensor(dims=stats, data_type="float")
        for result in g.sdpa_backward(q, k, v, g.tensor(dims=dims), do, rows)[:3]:
            result.set_output()
        assert torch_ir(g, target).count("aten.cat") == expected


def test_everything_is_computed_in_the_compute_type(torch_ir: Run) -> None:
    text = torch_ir(gradient(io="bfloat16", stats_type="float"), "cpu").splitlines()
    lines = [v for v in text if any(f"aten.{op}" in v for op in ("mul", "sum", "exp", "sub"))]
    assert lines
    assert all(line.rstrip().endswith("f32>") for line in lines)


def test_it_is_compiled_without_data_tiling_and_tables() -> None:
    # Data-tiled products mix up batches; hoisted, the distances would fill a table of all pairs.
    frozen = gradient(right_bound=0).freeze()
    assert isinstance(frozen.nodes[0].op, SdpaBackward)
    untiled = "--iree-dispatch-creation-data-tiling=false"
    assert untiled not in flags(frozen, CPU)  # in tiles of our own
    with scope(compiler_strategies="sdpa_backward=plain"):
        assert untiled in flags(frozen, CPU)
    for target in (CPU, Target.parse("gfx942")):
        assert "--iree-opt-const-expr-hoisting=false" in flags(frozen, target)


def test_a_result_that_is_its_own_gradient() -> None:
    """Half of such a result was divided by the softmax's sum twice (random graph 23446)."""
    g = Graph(io_data_type="float", compute_data_type="float")
    q, k, v = (g.tensor(dims=(1, 4, n, 31)) for n in (33, 4, 4))
    forward = g.sdpa(q, k, v, generate_stats=True)
    assert forward.stats is not None
    for result in g.sdpa_backward(q, k, v, forward.o, forward.o, forward.stats)[:3]:
        assert result is not None
        result.set_output()
    frozen = g.freeze()
    given = verify.random_inputs(frozen, seed=5)
    results = g.build("cpu", engine="iree").run(given)
    assert verify.compare(frozen, results, expect(frozen, given)).ok


def test_a_result_of_another_type_of_16_bits_on_gfx9() -> None:
    """W-072 (random graph 302166, emulated): Σ do · o was a product of two types, without code."""
    g = Graph(io_data_type="half", compute_data_type="float")
    q, k, v = g.tensor(dims=(2, 2, 3, 1)), g.tensor(dims=(2, 2, 1, 1)), g.tensor(dims=(2, 2, 1, 2))
    o, do = g.tensor(dims=(2, 2, 3, 2), data_type="bfloat16"), g.tensor(dims=(2, 2, 3, 2))
    stats = g.tensor(dims=(2, 2, 3, 1))
    for gradient in g.sdpa_backward(q, k, v, o, do, stats)[:3]:
        gradient.set_output()
    check_emulated(g)
