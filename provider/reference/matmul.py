"""Matrix product; of two batch dims the smaller one is repeated element by element."""

from __future__ import annotations

from collections.abc import Callable

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import strides_in_order
from ...graph_api.ops.matmul import Matmul
from .analysis import bilinear_bound, product, scaled_domain
from .base import FLOATS, INTEGERS, NUMBERS, Arrays, Context, Domain, Reference, Sample, sampler
from .building import padded_strides, sample_graph, wide_type
from .convert import Array

__all__ = ["REFERENCE", "sample_problems"]

Dims = tuple[int, ...]


def _multiply(a: Array, b: Array) -> Array:
    for axis, (m, n) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
        # hipDNN: operand index = result index // (result extent // operand extent).
        a, b = a.repeat(max(m, n) // m, axis), b.repeat(max(m, n) // n, axis)
    return product(a, b)


def evaluate(op: Matmul, inputs: Arrays, ctx: Context) -> Arrays:
    return {"c": ctx.finish(_multiply(inputs["a"], inputs["b"]))}


def bound(op: Matmul, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    a, b = ((inputs[port], errors[port]) for port in ("a", "b"))
    return {"c": bilinear_bound(_multiply, a, b, ctx.inputs["a"].dims[-1], ctx)}


def domain(op: Matmul, port: str, ctx: Context) -> Domain:
    return scaled_domain(ctx.inputs["a"].dims[-1], port, "a", ctx)


# Sample problems: name, dims of a and b, tags.
_CASES: tuple[tuple[str, Dims, Dims, str], ...] = (
    ("1x1x1", (1, 1), (1, 1), "size1"),
    ("square", (16, 16), (16, 16), ""),
    ("wide", (8, 16), (16, 64), ""),
    ("tall", (64, 16), (16, 8), ""),
    ("vector_left", (1, 37), (37, 29), "size1 prime"),
    ("vector_right", (31, 17), (17, 1), "size1 prime"),
    ("inner_product", (1, 67), (67, 1), "size1 prime"),
    ("outer_product", (19, 1), (1, 23), "size1 prime"),
    ("primes", (13, 29), (29, 17), "prime"),
    ("long_k", (3, 1031), (1031, 5), "prime long"),
    ("tile_minus1", (63, 31), (31, 15), "tile"),
    ("tile_plus1", (65, 33), (33, 17), "tile"),
    ("batch", (3, 8, 12), (3, 12, 10), "batch"),
    ("batch_one", (1, 8, 12), (1, 12, 10), "batch size1"),
    ("broadcast_b", (3, 8, 12), (1, 12, 10), "batch broadcast"),
    ("broadcast_a", (1, 8, 12), (5, 12, 10), "batch broadcast"),
    ("repeat_b", (6, 4, 8), (2, 8, 5), "batch repeat"),
    ("repeat_a", (2, 4, 8), (6, 8, 5), "batch repeat"),
    ("4d", (2, 3, 5, 7), (2, 3, 7, 4), "batch"),
    ("4d_grouped_heads", (2, 8, 5, 16), (2, 2, 16, 7), "batch repeat"),
    ("4d_repeat_both", (4, 2, 5, 6), (2, 6, 6, 3), "batch repeat"),
    ("4d_broadcast_both", (3, 1, 4, 6), (1, 5, 6, 3), "batch broadcast"),
    ("5d", (2, 1, 3, 4, 5), (2, 3, 3, 5, 6), "batch broadcast"),
    ("5d_repeat", (4, 2, 3, 2, 3), (2, 4, 1, 3, 2), "batch repeat broadcast"),
)

_A, _B, _C = (3, 7, 12), (3, 12, 10), (3, 7, 10)
_SWAP = (0, 2, 1)
_LAYOUTS: tuple[tuple[str, dict[str, Dims], str], ...] = (
    ("transposed_a", {"a": strides_in_order(_A, _SWAP)}, "transposed"),
    ("transposed_b", {"b": strides_in_order(_B, _SWAP)}, "transposed"),
    (
        "transposed_both",
        {"a": strides_in_order(_A, _SWAP), "b": strides_in_order(_B, _SWAP)},
        "transposed",
    ),
    ("transposed_c", {"c": strides_in_order(_C, _SWAP)}, "transposed"),
    (
        "batch_innermost",
        {
            "a": strides_in_order(_A, (1, 2, 0)),
            "b": strides_in_order(_B, (2, 1, 0)),
            "c": strides_in_order(_C, (1, 0, 2)),
        },
        "permuted",
    ),
    ("padded_a", {"a": tuple(padded_strides(_A, range(3), (0, 1, 4)))}, "padded"),
    ("padded_b_transposed", {"b": tuple(padded_strides(_B, _SWAP, (0, 3, 0)))}, "padded"),
    ("stride0_batch_a", {"a": (0, 12, 1)}, "broadcast"),
    ("stride0_batch_b", {"b": (0, 10, 1)}, "broadcast"),
    ("stride0_row_a", {"a": (12, 0, 1)}, "broadcast"),
    ("stride0_column_b", {"b": (12, 1, 0)}, "broadcast"),
)


def _laid_out(a: Dims, b: Dims, strides: dict[str, Dims]) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        c = g.matmul(
            g.tensor(dims=a, strides=strides.get("a"), name="a"),
            g.tensor(dims=b, strides=strides.get("b"), name="b"),
        )
        g.output(c, name="c", data_type=data_type if data_type.is_float else wide_type(data_type))
        if "c" in strides:
            c.set_stride(strides["c"])
        return g

    return build


def _same_tensor(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    a = g.tensor(dims=(2, 9, 9))
    g.matmul(a, a).set_output()
    return g


def _mlp(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(5, 16), name="x")
    hidden = g.relu(g.add(g.matmul(x, g.tensor(dims=(16, 32))), g.tensor(dims=(1, 32))))
    y = g.add(g.matmul(hidden, g.tensor(dims=(32, 4))), g.tensor(dims=(1, 4)))
    g.output(y, name="y")
    return g


def _gelu(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    a, b = g.tensor(dims=(17, 24)), g.tensor(dims=(24, 33))
    g.gelu(g.add(g.matmul(a, b), g.tensor(dims=(1, 33)))).set_output()
    return g


def _scaled_sum(data_type: DataType) -> Graph:
    """Return alpha · a·b + beta · c."""
    g = sample_graph(data_type)
    a, b, c = (g.tensor(dims=d) for d in ((9, 14), (14, 11), (9, 11)))
    g.add(g.mul(g.matmul(a, b), 0.5), g.mul(c, -1.5)).set_output()
    return g


def _typed(result: DataType, compute: DataType | None = None) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type, compute)
        c = g.matmul(g.tensor(dims=(9, 50)), g.tensor(dims=(50, 13)))
        g.output(c, data_type=result)
        return g

    return build


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the matrix product."""
    half, float_, double, int8 = DataType.HALF, DataType.FLOAT, DataType.DOUBLE, DataType.INT8
    sample = sampler("matmul")
    low, bytes_ = (half, DataType.BFLOAT16), INTEGERS[:2]
    return (
        *(sample(name, _laid_out(a, b, {}), tags, NUMBERS) for name, a, b, tags in _CASES),
        *(sample(name, _laid_out(_A, _B, s), tags, NUMBERS) for name, s, tags in _LAYOUTS),
        sample("same_tensor", _same_tensor, "alias batch"),
        sample("mlp", _mlp, "chain broadcast"),
        sample("bias_gelu", _gelu, "chain broadcast tile"),
        sample("scaled_sum", _scaled_sum, "chain scalar"),
        sample("half_to_float", _typed(float_), "mixed", low),
        sample("float_to_half", _typed(half), "mixed", (float_,)),
        sample("compute_half", _typed(half, half), "compute", (half,)),
        sample("compute_double", _typed(double, double), "compute", FLOATS),
        sample("int8_to_int8", _typed(int8), "mixed saturate", bytes_),
        sample("int8_to_half", _typed(half), "mixed", bytes_),
        sample("int8_to_float", _typed(float_), "mixed", bytes_),
        sample("int8_in_float", _typed(float_, float_), "mixed compute", bytes_),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
