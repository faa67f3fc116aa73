# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from .. import arguments
from ..dtypes import DataType
from ..enums import DiagonalAlignment
from ..errors import Problem
from ..tensor import Scalar, Tensor
from .attention import ATTN_RULES, AttentionOp, diagonal_field, mask_fields
from .base import Inferred, Match, OpSink, Port, Ports, results
from .fields import Absent, Field, inputs, outputs

_REQUIRED = ("q", "k", "v", "o", "do", "stats")
_OPTIONAL = (
    "scale",
    "attn_mask",
    "seq_len_q",
    "seq_len_kv",
    "seed",
    "offset",
    "dropout_mask",
    "dropout_scale",
    "dropout_scale_inv",
)
_RESULTS = ("dq", "dk", "dv")

SDPA_BACKWARD_RULES = {
    "SDPABWD-01": "o and do are floating tensors of (batch, heads, Sq, head dim of v)",
    "SDPABWD-02": "stats is a floating tensor of (batch, heads, Sq, 1)",
    "SDPABWD-03": "dbias is the gradient of a floating attn_mask",
}


@dataclass(frozen=True, kw_only=True)
class SdpaBackward(AttentionOp):
    """dq, dk, dv (and dbias) of o = softmax(scale · q·kᵀ + masks) · v."""

    NAME: ClassVar[str] = "sdpa_backward"
    INPUTS: ClassVar[tuple[Port, ...]] = (
        *(Port(n) for n in _REQUIRED),
        *(Port(n, optional=True) for n in _OPTIONAL),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (
        *(Port(n) for n in _RESULTS),
        Port("dbias", optional=True),
    )
    LIKE: ClassVar[Mapping[str, str]] = {"dq": "q", "dk": "k", "dv": "v", "dbias": "attn_mask"}
    SCALARS: ClassVar[tuple[str, ...]] = (*AttentionOp.SCALARS, "dropout_scale_inv")
    RULES: ClassVar[Mapping[str, str]] = ATTN_RULES | SDPA_BACKWARD_RULES
    TYPE_NAME: ClassVar[str] = "SdpaBackwardAttributes"
    WIRE_CODE: ClassVar[int | None] = 15
    MATCH: ClassVar[Match | None] = Match(priority=60, name="sdpa_bwd")
    COSTS: ClassVar[bool] = True
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs(*_REQUIRED),
        *outputs(*_RESULTS),
        *inputs(*_OPTIONAL, absent=Absent.NULL),
        *outputs("dbias", absent=Absent.NULL),
        *mask_fields("parameters"),
        diagonal_field("parameters"),
    )

    def check(self, t: Ports) -> Iterator[Problem]:
        yield from super().check(t)
        q, v = t.dims("q"), t.dims("v")
        row, head_dim = q[:3], v[3:]
        for port, rule, wanted in (
            ("o", "SDPABWD-01", (*row, *head_dim)),
            ("do", "SDPABWD-01", (*row, *head_dim)),
            ("stats", "SDPABWD-02", (*row, 1)),
        ):
            kind = t[port].data_type
            if len(wanted) == 4 and t.dims(port) != wanted:
                yield t.problem(rule, port, f"dims {list(t.dims(port))}", f"dims {list(wanted)}")
            if not kind.is_float and kind is not DataType.UNSET:
                yield t.problem(rule, port, kind.json, "a floating data type")
        if "dbias" in t:
            if "attn_mask" not in t:
                yield t.problem("SDPABWD-03", "dbias", "no attn_mask", "a floating attn_mask")
            elif t["attn_mask"].data_type.is_bool:
                yield t.problem("SDPABWD-03", "dbias", "a boolean attn_mask", "a floating one")

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        return {p: Inferred(dims=t.dims(self.LIKE[p])) for p in (*_RESULTS, "dbias") if p in t}


@results
class SdpaBackwardResult(NamedTuple):
    """Results of ``Graph.sdpa_backward``; dbias is None when it was not asked for."""

    dq: Tensor
    dk: Tensor
    dv: Tensor
    dbias: Tensor | None


def sdpa_backward(
    graph: OpSink,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    do: Tensor,
    stats: Tensor,
    *,
    attn_mask: Tensor | None = None,
    scale: Tensor | Scalar | None = None,
    attn_scale_value: float | None = None,
    left_bound: int | None = None,
    right_bound: int | None = None,
    diagonal_alignment: DiagonalAlignment | str = DiagonalAlignment.TOP_LEFT,
    causal_mask: bool = False,
    causal_mask_bottom_right: bool = False,
    alibi_mask: bool = False,
    padding_mask: bool = False,
    seq_len_q: Tensor | None = None,
    seq_len_kv: Tensor | None = None,
    dropout_probability: float | None = None,
    seed: Tensor | Scalar | None = None,
    offset: Tensor | Scalar | None = None,
    dropout_mask: Tensor | None = None,
    dropout_scale: Tensor | Scalar | None = None,
    dropout_scale_inv: Tensor | Scalar | None = None,
    generate_dbias: bool = False,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> SdpaBackwardResult:
    """Return the gradients of ``sdpa``.

    With the logits s of the forward pass, c = ``dropout_scale`` and m = ``dropout_mask`` (both 1
    when not given): p = exp(s - stats), δ = Σ do · o over the head dim, and
    ds = p · (c · m · (do·vᵀ) - δ).  Then dv = (c · m · p)ᵀ·do, dq = scale · ds·k,
    dk = scale · dsᵀ·q, and dbias is ds summed over the dims along which ``attn_mask`` is
    broadcast (Dao et al., FlashAttention, 2022, appendix B).

    p follows from ``stats``, so that a forward pass with a sink token needs nothing more here.
    Rows in which nothing is visible (stats -inf) contribute nothing.  Engines may round p and ds
    to the operands' type before they are multiplied, as every fused attention does; the
    verification allows it.

    Parameters
    ----------
    q, k, v : Tensor
        As in ``sdpa``.  With fewer heads than q, dk and dv are sums over the heads that share
        one.
    o, do : Tensor
        Result of ``sdpa`` and its gradient, dims (B, H, Sq, Dv), any dense layout.
    stats : Tensor
        Statistics of ``sdpa``: log(Σ exp(logit)), dims (B, H, Sq, 1).
    attn_mask, scale, attn_scale_value, left_bound, right_bound, diagonal_alignment : optional
        As in ``sdpa``.
    causal_mask, causal_mask_bottom_right, alibi_mask, padding_mask : bool
        As in ``sdpa``.
    seq_len_q, seq_len_kv : Tensor, optional
        As in ``sdpa``.
    dropout_probability, seed, offset : float, Tensor or number
        Random dropout; not served, as in ``sdpa``.
    dropout_mask, dropout_scale : Tensor, optional
        As in ``sdpa``.
    dropout_scale_inv : Tensor or number, optional
        1 / ``dropout_scale``.  δ is then multiplied by both, as cuDNN does it, which changes
        nothing when they are inverse to each other.
    generate_dbias : bool
        Also return the gradient of a floating ``attn_mask``.
    compute_data_type : DataType or str
        Type of logits, softmax and accumulation; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    SdpaBackwardResult
        dq, dk, dv with the dims and layouts of q, k, v unless set otherwise; dbias with those of
        ``attn_mask``, or None.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (ATTN-…,
        SDPABWD-…).
    """
    node = arguments.label(name, SdpaBackward.NAME)
    flags = {
        "alibi_mask": alibi_mask,
        "padding_mask": padding_mask,
        "causal_mask": causal_mask,
        "causal_mask_bottom_right": causal_mask_bottom_right,
    }
    op = SdpaBackward(
        **{n: arguments.flag(f, port=n, node=node) for n, f in flags.items()},
        dropout_probability=arguments.real(
            dropout_probability, port="dropout_probability", node=node
        ),
        attn_scale_value=arguments.real(attn_scale_value, port="attn_scale_value", node=node),
        left_bound=arguments.integer(left_bound, port="left_bound", node=node),
        right_bound=arguments.integer(right_bound, port="right_bound", node=node),
        diagonal_alignment=arguments.mode(
            DiagonalAlignment, diagonal_alignment, port="diagonal_alignment", node=node
        ),
    )
    given: dict[str, Tensor | Scalar | None] = {
        "scale": scale,
        "attn_mask": attn_mask,
        "seq_len_q": seq_len_q,
        "seq_len_kv": seq_len_kv,
        "seed": seed,
        "offset": offset,
        "dropout_mask": dropout_mask,
        "dropout_scale": dropout_scale,
        "dropout_scale_inv": dropout_scale_inv,
    }
    inputs = {port: value for port, value in given.items() if value is not None}
    bias = arguments.flag(generate_dbias, port="generate_dbias", node=node)
    found = graph.add_node(
        op,
        {"q": q, "k": k, "v": v, "o": o, "do": do, "stats": stats, **inputs},
        outputs=[*_RESULTS, *(["dbias"] if bias else [])],
        compute=compute_data_type,
        name=name,
    )
    return SdpaBackwardResult(found["dq"], found["dk"], found["dv"], found.get("dbias"))
