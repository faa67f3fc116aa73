"""How much work a graph is: arithmetic and memory traffic, counted from shapes alone.

What the counts are for: the choice of the runtime driver, rankings of engines, rooflines.  They
say what the *definition* of an op asks for, not what some code does: padding, repacking and work
done twice do not count, and masked attention scores do, as IREE computes all of them.

- ``matrix_flops``: multiplications and additions of products and convolutions, two per pair.
  Matrix units can do them.
- ``other_flops``: all other arithmetic, in operations of about the cost of an addition.  A
  function such as exp counts for what its polynomial takes (`COSTS`).
- ``nbytes``: each tensor once; a broadcast dim once; compile-time scalars not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple

from ..graph_api.enums import PointwiseMode, ResampleMode
from ..graph_api.frozen import FrozenGraph, FrozenNode
from ..graph_api.ops.pointwise import Pointwise
from ..graph_api.ops.resample_fwd import ResampleOp
from ..graph_api.ops.sdpa import Sdpa
from ..graph_api.tensor import TensorSpec

__all__ = [
    "COSTS",
    "WORK",
    "Work",
    "cpu_us",
    "graph_work",
    "node_work",
    "tensor_bytes",
]

Dims = Mapping[str, tuple[int, ...]]


class Work(NamedTuple):
    """Counts for a node or a graph.

    Attributes
    ----------
    matrix_flops : int
        Arithmetic of products and convolutions.
    other_flops : int
        All other arithmetic.
    nbytes : int
        Bytes that must be read and written at least.  A node's are those of all its tensors; a
        graph's those of its inputs and outputs only, as if everything between was fused.
    """

    matrix_flops: int = 0
    other_flops: int = 0
    nbytes: int = 0

    @property
    def flops(self) -> int:
        """All arithmetic."""
        return self.matrix_flops + self.other_flops

    @property
    def intensity(self) -> float:
        """Operations per byte: what a roofline is read at; 0 where no byte moves."""
        return self.flops / self.nbytes if self.nbytes else 0.0


COSTS: dict[PointwiseMode, int] = {
    **dict.fromkeys((PointwiseMode.IDENTITY, PointwiseMode.GEN_INDEX), 0),
    PointwiseMode.ADD_SQUARE: 2,
    **dict.fromkeys((PointwiseMode.DIV, PointwiseMode.RECIPROCAL, PointwiseMode.SQRT), 4),
    **dict.fromkeys((PointwiseMode.RSQRT, PointwiseMode.MOD), 6),
    **dict.fromkeys((PointwiseMode.EXP, PointwiseMode.LOG), 12),
    **dict.fromkeys((PointwiseMode.SIN, PointwiseMode.COS, PointwiseMode.ERF), 20),
    **dict.fromkeys((PointwiseMode.TAN, PointwiseMode.POW), 28),
    **dict.fromkeys((PointwiseMode.ELU_FWD, PointwiseMode.ELU_BWD), 16),
    **dict.fromkeys((PointwiseMode.SIGMOID_FWD, PointwiseMode.TANH_FWD), 18),
    **dict.fromkeys((PointwiseMode.SIGMOID_BWD, PointwiseMode.TANH_BWD), 20),
    **dict.fromkeys((PointwiseMode.SWISH_FWD, PointwiseMode.SWISH_BWD), 24),
    **dict.fromkeys((PointwiseMode.SOFTPLUS_FWD, PointwiseMode.SOFTPLUS_BWD), 26),
    **dict.fromkeys((PointwiseMode.GELU_FWD, PointwiseMode.GELU_APPROX_TANH_FWD), 26),
    **dict.fromkeys((PointwiseMode.GELU_BWD, PointwiseMode.GELU_APPROX_TANH_BWD), 44),
}
"""Operations per element of a pointwise mode; 1 for those that are not listed.

Rounded counts of the polynomials and range reductions of MLIR's math approximations in float32.
"""


def _no_arithmetic(op: object, dims: Dims) -> tuple[int, int]:
    """Ops that only move elements."""
    return 0, 0


def _per_element(port: str, cost: int) -> Callable[[object, Dims], tuple[int, int]]:
    """A fixed number of operations for each element of one tensor."""
    return lambda op, dims: (0, cost * prod(dims[port]))


def _pointwise(op: object, dims: Dims) -> tuple[int, int]:
    assert isinstance(op, Pointwise)
    return 0, COSTS.get(op.mode, 1) * prod(dims["out_0"])


def _conv(result: str, filter: str) -> Callable[[object, Dims], tuple[int, int]]:
    """Each filter tap once for each position of the forward result."""
    return lambda op, dims: (2 * prod(dims[result]) * prod(dims[filter][1:]), 0)


def _matmul(op: object, dims: Dims) -> tuple[int, int]:
    return 2 * prod(dims["c"]) * dims["a"][-1], 0


def _experts(rows: str, weight: str) -> Callable[[object, Dims], tuple[int, int]]:
    """Each row with the matrix of one expert."""
    return lambda op, dims: (2 * dims[rows][1] * prod(dims[weight][1:]), 0)


def _windows(port: str) -> Callable[[object, Dims], tuple[int, int]]:
    """Each element of a window once for each of the pooled positions.

    Resizing weighs and adds the elements around each position.
    """

    def count(op: object, dims: Dims) -> tuple[int, int]:
        assert isinstance(op, ResampleOp)
        if op.resizes:
            linear = op.resample_mode is ResampleMode.BILINEAR
            return 0, linear * 2 ** (len(dims[port]) - 1) * prod(dims[port])
        return 0, prod(dims[port]) * prod(op.window)

    return count


def _keys(op: object, dims: Dims) -> int:
    """How many keys each query meets."""
    if "page_table_k" not in dims:
        return dims["k"][2]
    limit = op.max_seq_len_kv if isinstance(op, Sdpa) else None
    return limit or dims["k"][2] * dims["page_table_k"][2]


def _sdpa(op: object, dims: Dims) -> tuple[int, int]:
    scores = prod(dims["q"][:3]) * _keys(op, dims)
    # Scale, maximum, difference, exp, sum, and the division by the sum.
    return 2 * scores * (dims["q"][3] + dims["v"][3]), scores * (COSTS[PointwiseMode.EXP] + 5)


def _sdpa_backward(op: object, dims: Dims) -> tuple[int, int]:
    scores = prod(dims["q"][:3]) * _keys(op, dims)
    # q·kᵀ, dq and dk over the head's dims; do·vᵀ and dv over those of the values.
    products = 2 * scores * (3 * dims["q"][3] + 2 * dims["v"][3])
    return products, scores * (COSTS[PointwiseMode.EXP] + 6) + 2 * prod(dims["o"])


def _unknown(op: object, dims: Dims) -> tuple[int, int]:
    """A function of the user's: at least one operation for each element of its largest tensor."""
    return 0, max(map(prod, dims.values()))


# Norms: sum, difference, square, sum, scale twice, shift (7); without mean 5; a fixed mean and
# deviation 4.  Their gradients: three sums of products, and as much again to put them together.
WORK: dict[str, Callable[[object, Dims], tuple[int, int]]] = {
    "batchnorm": _per_element("x", 7),
    "batchnorm_backward": _per_element("x", 11),
    "batchnorm_inference": _per_element("x", 4),
    "batchnorm_inference_variance_ext": _per_element("x", 4),
    "block_scale_dequantize": _per_element("y", 1),
    "block_scale_quantize": _per_element("x", 3),
    "concatenate": _no_arithmetic,
    "conv_dgrad": _conv("dy", "w"),
    "conv_fprop": _conv("y", "w"),
    "conv_wgrad": _conv("dy", "dw"),
    "custom_op": _unknown,
    "layernorm": _per_element("x", 7),
    "layernorm_backward": _per_element("x", 13),
    "matmul": _matmul,
    "moe_grouped_matmul": _experts("output", "weight"),
    "moe_grouped_matmul_bwd": _experts("doutput", "dweight"),
    "pad": _no_arithmetic,
    "pointwise": _pointwise,
    "reduction": _per_element("x", 1),
    "resample_bwd": _windows("dy"),
    "resample_fwd": _windows("y"),
    "reshape": _no_arithmetic,
    "rmsnorm": _per_element("x", 5),
    "rmsnorm_backward": _per_element("x", 10),
    "sdpa": _sdpa,
    "sdpa_backward": _sdpa_backward,
    "slice": _no_arithmetic,
    "transpose": _no_arithmetic,
}
"""Op -> (matrix_flops, other_flops) from its parameters and the dims of its ports."""

# Of these only as much is read as is written.
_PARTS = frozenset({"slice"})


def tensor_bytes(spec: TensorSpec) -> int:
    """Return the bytes that a tensor's elements take, those of a broadcast dim once."""
    if spec.value is not None:
        return 0
    stored = (d for d, s in zip(spec.dims, spec.strides, strict=True) if s or spec.virtual)
    return spec.data_type.nbytes(prod(stored))


def node_work(graph: FrozenGraph, node: FrozenNode) -> Work:
    """Return the work of one node that stands alone.

    Parameters
    ----------
    graph : FrozenGraph
        Graph that the node is of.  Dynamic dims count with their examples.
    """
    ports = {**node.inputs, **node.outputs}
    dims = {port: graph.tensors[uid].dims for port, uid in ports.items()}
    matrix, other = WORK[node.op.NAME](node.op, dims)
    written = sum(tensor_bytes(graph.tensors[u]) for u in set(node.outputs.values()))
    read = sum(tensor_bytes(graph.tensors[u]) for u in set(node.inputs.values()))
    return Work(matrix, other, written + (min(read, written) if node.op.NAME in _PARTS else read))


def graph_work(graph: FrozenGraph) -> Work:
    """Return the work of a whole graph; its bytes are those of inputs and outputs only."""
    nodes = [node_work(graph, node) for node in graph.nodes]
    return Work(
        sum(w.matrix_flops for w in nodes),
        sum(w.other_flops for w in nodes),
        sum(tensor_bytes(graph.tensors[u]) for u in (*graph.inputs, *graph.outputs)),
    )


# Operations and bytes a microsecond on one core, by what they are done for; see `cpu_us`.
_MATRIX_RATE, _CONV_RATE, _OTHER_RATE, _BYTE_RATE = 200e3, 55e3, 110e3, 100e3
_NODE_US = 0.5  # of each node, for starting its loops
_CALL_US = 1.5


def cpu_us(graph: FrozenGraph) -> float:
    """Return about how many microseconds a run of the IREE engine takes on one core.

    Notes
    -----
    Rates are those of one core of a Zen 4 EPYC with AVX-512 and of this project's code for it
    (IREE 3.13, float32): of 38 graphs of 2 to 1,000 microseconds (products, convolutions,
    chains, functions, norms, attention, sums) the estimate was 0.42 to 1.67 times the time
    measured, in the middle 1.04 times.  Data types, layouts and caches do not enter.
    """
    total = _CALL_US + graph_work(graph).nbytes / _BYTE_RATE
    for node in graph.nodes:
        work = node_work(graph, node)
        rate = _CONV_RATE if node.op.NAME.startswith("conv_") else _MATRIX_RATE
        total += _NODE_US + work.matrix_flops / rate + work.other_flops / _OTHER_RATE
    return total
