# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

from .. import arguments
from ..dtypes import DataType
from ..enums import AttentionImplementation, DiagonalAlignment
from ..errors import Problem
from ..tensor import Scalar, Tensor
from .attention import ATTN_RULES, AttentionOp, diagonal_field, mask_fields
from .base import Inferred, Match, OpSink, Port, Ports, results
from .fields import Absent, Field, Kind, inputs, outputs

_OPTIONAL = (
    "attn_mask",
    "scale",
    "seq_len_q",
    "seq_len_kv",
    "seed",
    "offset",
    "dropout_mask",
    "dropout_scale",
    "page_table_k",
    "page_table_v",
    "block_mask",
    "sink_token",
    "descale_q",
    "descale_k",
    "descale_v",
    "descale_s",
    "scale_s",
    "scale_o",
)
_RESULTS = ("stats", "max", "sum_exp", "rng_dump", "amax_s", "amax_o")


SDPA_RULES = {
    "SDPA-01": "generate_stats is true exactly when stats is asked for, or left open",
    "SDPA-02": "sink_token is floating and broadcasts to (1, heads, 1, 1)",
    "SDPA-03": "a page table is INT32 or INT64 of (batch, 1, blocks, 1), over blocks that fit q",
    "SDPA-04": "max_seq_len_kv is positive and at most as long as k and v",
}


@dataclass(frozen=True, kw_only=True)
class Sdpa(AttentionOp):
    """o = softmax(scale · q·kᵀ + masks) · v.

    Attributes
    ----------
    generate_stats : bool or None
        hipDNN's flag for ``stats``; what is connected decides.
    max_seq_len_kv : int or None
        Length of the keys in a paged cache.
    mma_core_mode : DataType
        Type of the matrix instructions.
    implementation : AttentionImplementation
        hipDNN's hint.
    """

    generate_stats: bool | None = None
    max_seq_len_kv: int | None = None
    mma_core_mode: DataType = DataType.UNSET
    implementation: AttentionImplementation = AttentionImplementation.AUTO

    NAME: ClassVar[str] = "sdpa"
    ELSEWHERE: ClassVar[tuple[str, ...]] = ("attention", "scaled_dot_product_attention")
    INPUTS: ClassVar[tuple[Port, ...]] = (
        *(Port(n) for n in ("q", "k", "v")),
        *(Port(n, optional=True) for n in _OPTIONAL),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (
        Port("o"),
        *(Port(n, optional=True) for n in _RESULTS),
    )
    LIKE: ClassVar[Mapping[str, str]] = {"o": "q"}
    SCALARS: ClassVar[tuple[str, ...]] = (
        *AttentionOp.SCALARS,
        *("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o"),
    )
    RULES: ClassVar[Mapping[str, str]] = ATTN_RULES | SDPA_RULES
    TYPE_NAME: ClassVar[str] = "SdpaAttributes"
    WIRE_CODE: ClassVar[int | None] = 12
    MATCH: ClassVar[Match | None] = Match(
        priority=60, name="sdpa_fwd", ports=("q", "k", "v", "scale", "attn_mask", *_OPTIONAL[2:])
    )
    COSTS: ClassVar[bool] = True
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("q", "k", "v"),
        *outputs("o"),
        *inputs(*_OPTIONAL, absent=Absent.NULL),
        *outputs(*_RESULTS, absent=Absent.NULL),
        Field(
            name="generate_stats",
            kind=Kind.BOOL,
            section="attributes",
            older="parameters",
            absent=Absent.NULL,
        ),
        *mask_fields("attributes", older="parameters"),
        Field(
            name="max_seq_len_kv",
            kind=Kind.INT,
            bits=32,
            section="attributes",
            older="parameters",
            absent=Absent.NULL,
        ),
        diagonal_field("attributes", older="parameters"),
        Field(
            name="mma_core_mode",
            kind=Kind.ENUM,
            section="attributes",
            older="parameters",
            enum=DataType,
            default=DataType.UNSET,
        ),
        Field(
            name="implementation",
            kind=Kind.ENUM,
            section="attributes",
            older="parameters",
            enum=AttentionImplementation,
            default=AttentionImplementation.AUTO,
        ),
    )

    def lengths(self, t: Ports) -> tuple[int, int]:
        return t.dims("q")[2], self._limit(t) or self._held(t, "k")

    def _limit(self, t: Ports) -> int | None:
        return self.max_seq_len_kv if "page_table_k" in t or "page_table_v" in t else None

    def _held(self, t: Ports, port: str) -> int:
        """Return how many keys (or values) there is room for."""
        table, length = t.given(f"page_table_{port}"), t.dims(port)[2]
        return length if table is None else length * table[2]

    def check_operands(self, t: Ports) -> Iterator[Problem]:
        if "page_table_k" not in t and "page_table_v" not in t:
            yield from super().check_operands(t)
            return
        q = t.dims("q")
        broken = False
        for port in ("k", "v"):
            table = t.given(f"page_table_{port}")
            if table is None:
                if t.dims(port)[0] != q[0]:
                    wanted = f"batch {q[0]}, as q's"
                    yield t.problem("ATTN-02", port, f"batch {t.dims(port)[0]}", wanted)
                continue
            if len(table) != 4 or (table[0], table[1], table[3]) != (q[0], 1, 1):
                broken = True
                wanted = f"[{q[0]}, 1, blocks, 1]"
                yield t.problem("SDPA-03", f"page_table_{port}", f"dims {list(table)}", wanted)
            kind = t[f"page_table_{port}"].data_type
            if kind not in (DataType.INT32, DataType.INT64):
                yield t.problem("SDPA-03", f"page_table_{port}", kind.json, "int32 or int64")
        if t.dims("k")[3] != q[3]:
            yield t.problem("ATTN-02", "k", f"head dim {t.dims('k')[3]}", f"{q[3]}, as q's")
        if not broken and self.max_seq_len_kv is None and self._held(t, "k") != self._held(t, "v"):
            got = f"{self._held(t, 'v')} values for {self._held(t, 'k')} keys"
            hint = "or set max_seq_len_kv"
            yield t.problem("ATTN-02", "v", got, "as many values as keys", hint)

    def check_shapes(self, t: Ports) -> Iterator[Problem]:
        broken = list(super().check_shapes(t))
        yield from broken
        if broken or self.max_seq_len_kv is None:
            return
        held = min(self._held(t, "k"), self._held(t, "v"))
        paged = self._limit(t) is not None
        if not 1 <= self.max_seq_len_kv <= held or not (paged or self.max_seq_len_kv == held):
            wanted = f"from 1 to {held}" if paged else f"{held}, as k is not paged"
            yield t.problem("SDPA-04", "max_seq_len_kv", self.max_seq_len_kv, wanted)

    def check(self, t: Ports) -> Iterator[Problem]:
        yield from super().check(t)
        if self.generate_stats is not None and self.generate_stats != ("stats" in t):
            got = f"{self.generate_stats} {'with' if 'stats' in t else 'without'} stats"
            yield t.problem("SDPA-01", "generate_stats", got, "the value of stats, or nothing")
        sink, q = t.given("sink_token"), t.dims("q")
        if sink is not None and len(q) == 4:
            kind = t["sink_token"].data_type
            if sink not in ((1, q[1], 1, 1), (1, 1, 1, 1), (1,)):
                yield t.problem("SDPA-02", "sink_token", f"dims {list(sink)}", f"[1, {q[1]}, 1, 1]")
            elif not kind.is_float and kind is not DataType.UNSET:
                yield t.problem("SDPA-02", "sink_token", kind.json, "a floating data type")

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        q, v = t.dims("q"), t.dims("v")
        row, one = (*q[:3], 1), (1, 1, 1, 1)
        dims = {"o": (*q[:3], v[3]), "stats": row, "max": row, "sum_exp": row}
        dims |= {"rng_dump": (*q[:3], self.lengths(t)[1]), "amax_s": one, "amax_o": one}
        return {p: Inferred(dims=d) for p, d in dims.items() if p in t}

    def settle(self, t: Ports) -> Self:
        paged = self._limit(t)
        return replace(super().settle(t), generate_stats=None, max_seq_len_kv=paged)


@results
class SdpaResult(NamedTuple):
    """What attention returns; None for what was not asked for."""

    o: Tensor
    stats: Tensor | None
    max: Tensor | None
    sum_exp: Tensor | None


def sdpa(
    graph: OpSink,
    q: Tensor,
    k: Tensor,
    v: Tensor,
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
    sink_token: Tensor | None = None,
    page_table_k: Tensor | None = None,
    page_table_v: Tensor | None = None,
    max_seq_len_kv: int | None = None,
    dropout_probability: float | None = None,
    seed: Tensor | Scalar | None = None,
    offset: Tensor | Scalar | None = None,
    dropout_mask: Tensor | None = None,
    dropout_scale: Tensor | Scalar | None = None,
    block_mask: Tensor | None = None,
    generate_stats: bool = False,
    generate_max: bool = False,
    generate_sum_exp: bool = False,
    mma_core_mode: DataType | str = DataType.UNSET,
    implementation: AttentionImplementation | str = AttentionImplementation.AUTO,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> SdpaResult:
    """Attend: o = softmax(scale · q·kᵀ + masks) · v, row by row.

    The softmax is taken in the compute type, with the row's maximum subtracted (Vaswani et al.,
    2017).  A row in which nothing is visible is defined: o is 0, stats and max are -inf, sum_exp
    is 0 (as in hipDNN's CPU reference).  Engines may round the exponentials, and the scaled
    queries, to the operands' type, as every fused attention does; the verification allows it.

    Parameters
    ----------
    q : Tensor
        Queries, dims (B, H, Sq, D), any dense layout.
    k, v : Tensor
        Keys (B, Hk, Skv, D) and values (B, Hv, Skv, Dv).  H is a multiple of Hk and Hv; head h
        reads key head ``h // (H / Hk)`` (grouped and multi-query attention).
    attn_mask : Tensor, optional
        Broadcasts to (B, H, Sq, Skv).  Floating: added to the scaled logits (-inf masks).
        BOOLEAN: true where a key is visible.
    scale : Tensor or number, optional
        One-element tensor that multiplies q·kᵀ; not together with ``attn_scale_value``.
    attn_scale_value : float, optional
        The same as a parameter; 1/√D when neither is given.
    left_bound, right_bound : int, optional
        Visible are keys ``i + d - left_bound <= j <= i + d + right_bound`` for query i; -1 or
        None leaves a side open.  ``right_bound=0`` is the causal mask.
    diagonal_alignment : DiagonalAlignment or str
        TOP_LEFT: d = 0; BOTTOM_RIGHT: d = Skv - Sq, or with a padding mask the difference of the
        batch entry's lengths.
    causal_mask, causal_mask_bottom_right : bool
        Deprecated: ``right_bound=0`` with TOP_LEFT or BOTTOM_RIGHT.
    alibi_mask : bool
        Add ``slope(h) · (j - i - d)`` (ALiBi); needs a right bound of 0.
    padding_mask : bool
        Only the first ``seq_len_q`` queries and ``seq_len_kv`` keys of a batch entry count.
    seq_len_q, seq_len_kv : Tensor, optional
        INT32 or INT64, dims (B, 1, 1, 1).
    sink_token : Tensor, optional
        Dims (1, H, 1, 1): a further logit of each row, without a value.  It counts for stats,
        max and sum_exp.
    page_table_k, page_table_v : Tensor, optional
        INT32 or INT64, dims (B, 1, n, 1).  k (or v) is then a container (blocks, Hk, size, D)
        and key j of batch entry b is ``k[table[b, 0, j // size, 0], :, j % size]``.
    max_seq_len_kv : int, optional
        Skv of a paged cache; n · size when not given.
    dropout_probability, seed, offset : float, Tensor or number
        Random dropout.  No engine here serves it: hipDNN does not define the random numbers, so
        that no result could be checked.
    dropout_mask, dropout_scale : Tensor, optional
        The softmax is multiplied by the mask and o by the scale.
    block_mask : Tensor, optional
        hipDNN's block mask; not served.
    generate_stats, generate_max, generate_sum_exp : bool
        Also return the row's log(Σ exp(logit)), largest logit m, and Σ exp(logit - m), with dims
        (B, H, Sq, 1).  Set their data type; FLOAT is usual.
    mma_core_mode, implementation : DataType, AttentionImplementation or str
        hipDNN's hints.
    compute_data_type : DataType or str
        Type of logits, softmax and accumulation; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    SdpaResult
        o with dims (B, H, Sq, Dv), in the layout of ``q`` unless strides are set; stats, max and
        sum_exp, or None: a half precision graph does well to set FLOAT for these.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (ATTN-…,
        SDPA-…).
    """
    node = arguments.label(name, Sdpa.NAME)
    flags = {
        "alibi_mask": alibi_mask,
        "padding_mask": padding_mask,
        "causal_mask": causal_mask,
        "causal_mask_bottom_right": causal_mask_bottom_right,
    }
    wanted = {"stats": generate_stats, "max": generate_max, "sum_exp": generate_sum_exp}
    results = ["o", *(p for p, f in wanted.items() if arguments.flag(f, port=p, node=node))]
    op = Sdpa(
        **{n: arguments.flag(f, port=n, node=node) for n, f in flags.items()},
        dropout_probability=arguments.real(
            dropout_probability, port="dropout_probability", node=node
        ),
        attn_scale_value=arguments.real(attn_scale_value, port="attn_scale_value", node=node),
        left_bound=arguments.integer(left_bound, port="left_bound", node=node),
        right_bound=arguments.integer(right_bound, port="right_bound", node=node),
        max_seq_len_kv=arguments.integer(max_seq_len_kv, port="max_seq_len_kv", node=node),
        diagonal_alignment=arguments.mode(
            DiagonalAlignment, diagonal_alignment, port="diagonal_alignment", node=node
        ),
        mma_core_mode=arguments.data_type(mma_core_mode, port="mma_core_mode", node=node),
        implementation=arguments.mode(
            AttentionImplementation, implementation, port="implementation", node=node
        ),
    )
    given: dict[str, Tensor | Scalar | None] = {
        "attn_mask": attn_mask,
        "scale": scale,
        "seq_len_q": seq_len_q,
        "seq_len_kv": seq_len_kv,
        "seed": seed,
        "offset": offset,
        "dropout_mask": dropout_mask,
        "dropout_scale": dropout_scale,
        "page_table_k": page_table_k,
        "page_table_v": page_table_v,
        "block_mask": block_mask,
        "sink_token": sink_token,
    }
    inputs = {port: value for port, value in given.items() if value is not None}
    found = graph.add_node(
        op,
        {"q": q, "k": k, "v": v, **inputs},
        outputs=results,
        compute=compute_data_type,
        name=name,
    )
    return SdpaResult(found["o"], *(found.get(p) for p in wanted))
