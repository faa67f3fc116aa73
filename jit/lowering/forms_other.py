"""The forms of matrix products and of attention, and the rules that choose among them."""

from __future__ import annotations

from collections.abc import Iterable

from ...graph_api.frozen import FrozenGraph
from ...graph_api.ops.attention import AttentionOp
from ...graph_api.ops.conv_fprop import ConvOp
from ...graph_api.ops.matmul import Matmul
from ...graph_api.ops.sdpa import Sdpa
from .form import Form, Site
from .fused_attention import fuses

__all__ = ["MATMUL", "PER_HEAD", "SDPA", "matmul_rule", "sdpa_rule", "tiles_batches"]

PER_HEAD = "per_head"
# Matrices of a batch that are multiplied one by one.
_MOST_HEADS = 16

MATMUL = (
    Form(
        name="products",
        help="one matrix product, or a batch of them, in the operands' common type",
        fits=lambda site: True,
    ),
    Form(
        name="plain",
        help="one matmul op in the compute type: for comparison (on gfx9 IREE 3.13 compiles some "
        "wrongly)",
        fits=lambda site: not site.dynamic,
        why="fixed dims",
        tried=False,
    ),
)


def matmul_rule(site: Site) -> str:
    """Return the default form of a matrix product."""
    return "products"


def _fused(site: Site) -> bool:
    node = site.node
    assert isinstance(node.op, Sdpa)
    heads = {port: site.dims(port)[1] for port in ("k", "v")}
    kinds = {port: site.kind(port) for port in node.inputs}
    return fuses(node, heads, kinds) and not site.dynamic


def _few_heads(site: Site) -> bool:
    batch = site.dims("q")[0] * site.dims("k")[1]
    return site.target.is_cpu and batch <= _MOST_HEADS and not site.dynamic


SDPA = (
    Form(
        name="composite",
        help="products, masks, a softmax of rows and products",
        fits=lambda site: True,
    ),
    Form(
        name=PER_HEAD,
        help="the same, with the products of each key head by themselves, so that the graph's "
        "products can be data-tiled (IREE 3.13 mixes up batches of tiled ones in attention)",
        fits=_few_heads,
        why="up to 16 key heads in all batches, fixed dims, on the CPU",
    ),
    Form(
        name="fused",
        help="one attention op; on gfx9 one kernel, on the CPU slow",
        fits=_fused,
        why="q, k and v of one float type and as many heads of k as of v, no mask but a full or "
        "causal one, no statistics, float compute, fixed dims",
    ),
    Form(
        name="plain",
        help="the same op: for comparison",
        fits=_fused,
        why="what 'fused' is for",
        tried=False,
    ),
)


def sdpa_rule(site: Site) -> str:
    """Return the default form of attention."""
    if site.target.is_gfx9 and _fused(site):
        return "fused"
    nodes = site.graph.nodes
    others = any(isinstance(node.op, Matmul | ConvOp) for node in nodes)
    alone = all(
        isinstance(node.op, Sdpa) and _few_heads(Site(site.graph, node, site.target))
        for node in nodes
        if isinstance(node.op, AttentionOp)
    )
    return PER_HEAD if others and alone else "composite"


def tiles_batches(graph: FrozenGraph, forms: Iterable[str]) -> bool:
    """Whether a data-tiled product of a batch would be in an attention node."""
    pairs = zip(graph.nodes, forms, strict=True)
    return any(isinstance(node.op, AttentionOp) and form != PER_HEAD for node, form in pairs)
