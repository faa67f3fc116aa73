"""The forms of matrix products and of attention, and the rules that choose among them."""

from __future__ import annotations

from ...graph_api.ops.sdpa import Sdpa
from .form import Form, Site
from .fused_attention import fuses

__all__ = ["MATMUL", "SDPA", "matmul_rule", "sdpa_rule"]


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


SDPA = (
    Form(
        name="composite",
        help="products, masks, a softmax of rows and products",
        fits=lambda site: True,
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
    return "fused" if site.target.is_gfx9 and _fused(site) else "composite"
