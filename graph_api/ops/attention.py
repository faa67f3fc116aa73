# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the two attention ops share: masks, their rules, and the shapes of heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from ..dtypes import DataType
from ..enums import DiagonalAlignment
from ..errors import Problem
from .base import Axis, Follows, Op, Ports
from .fields import Absent, Field, Kind, fields

__all__ = ["ATTN_RULES", "AttentionOp", "alibi_slopes", "diagonal_field", "mask_fields"]

Ints = tuple[int, ...]

ATTN_RULES = {
    "ATTN-01": "q, k and v are floating tensors of rank 4: (batch, heads, length, head dim)",
    "ATTN-02": "q and k have the same batch and head dim, k and v the same batch and length",
    "ATTN-03": "the heads of q are a multiple of those of k, and of those of v",
    "ATTN-04": "attn_mask is floating or BOOLEAN and broadcasts to (batch, heads, Sq, Skv)",
    "ATTN-05": "scalar operands have one element, and the scale is given once",
    "ATTN-06": "padding_mask comes with seq_len_q and seq_len_kv, integers of (batch, 1, 1, 1)",
    "ATTN-07": "left_bound and right_bound are at least 0, or -1 for an open side",
    "ATTN-08": "causal_mask, causal_mask_bottom_right and the bounds do not contradict each other",
    "ATTN-09": "alibi_mask comes with a causal mask (right bound 0)",
    "ATTN-10": "dropout_probability is at least 0 and less than 1",
    "ATTN-11": "dropout_mask broadcasts to (batch, heads, Sq, Skv), and excludes a probability",
    "ATTN-12": "the compute type is a floating one",
    "ATTN-13": "attn_scale_value is a finite float32 number",
}

_PER_BATCH = (
    *("q", "k", "v", "o", "do", "stats", "attn_mask", "dropout_mask"),
    *("seq_len_q", "seq_len_kv", "page_table_k", "page_table_v"),
)


@dataclass(frozen=True, kw_only=True)
class AttentionOp(Op):
    """Parameters of attention and of its gradient.

    Query i sees key j when ``i + d - left_bound <= j <= i + d + right_bound``, where d is 0 for
    TOP_LEFT and the length of k minus that of q for BOTTOM_RIGHT (with a padding mask: of the
    batch entry's own lengths).

    Attributes
    ----------
    alibi_mask : bool
        Add ALiBi's bias.
    padding_mask : bool
        Mask what is beyond ``seq_len_q`` and ``seq_len_kv``.
    causal_mask, causal_mask_bottom_right : bool
        Deprecated spellings of ``right_bound = 0``; ``settle`` replaces them.
    dropout_probability : float or None
        Probability of dropping.
    attn_scale_value : float or None
        Factor of the logits, 1/√D when None.
    left_bound : int or None
        Keys that are visible before the diagonal; None (or -1) for all.
    right_bound : int or None
        Keys that are visible behind the diagonal; None (or -1) for all.
    diagonal_alignment : DiagonalAlignment
        Where the diagonal starts.
    """

    alibi_mask: bool = False
    padding_mask: bool = False
    causal_mask: bool = False
    causal_mask_bottom_right: bool = False
    dropout_probability: float | None = None
    attn_scale_value: float | None = None
    left_bound: int | None = None
    right_bound: int | None = None
    diagonal_alignment: DiagonalAlignment = DiagonalAlignment.TOP_LEFT

    RULES: ClassVar[Mapping[str, str]] = ATTN_RULES
    SCALARS: ClassVar[tuple[str, ...]] = ("scale", "seed", "offset", "dropout_scale")

    @property
    def band(self) -> tuple[int | None, int | None, bool]:
        """Left and right bound (None where open), and whether the diagonal ends bottom right."""
        left = None if self.left_bound in (None, -1) else self.left_bound
        right = None if self.right_bound in (None, -1) else self.right_bound
        bottom = self.diagonal_alignment is DiagonalAlignment.BOTTOM_RIGHT
        if self.causal_mask or self.causal_mask_bottom_right:
            right, bottom = 0, bottom or self.causal_mask_bottom_right
        return left, right, bottom

    def lengths(self, t: Ports) -> tuple[int, int]:
        """Return the lengths of the queries and of the keys."""
        return t.dims("q")[2], t.dims("k")[2]

    def settle(self, t: Ports) -> Self:
        left, right, bottom = self.band
        queries, keys = self.lengths(t)
        if (left is None and right is None and not self.alibi_mask) or (
            queries == keys and not self.padding_mask
        ):
            bottom = False  # both diagonals are the same one, or there is none
        alignment = DiagonalAlignment.BOTTOM_RIGHT if bottom else DiagonalAlignment.TOP_LEFT
        return replace(
            self,
            causal_mask=False,
            causal_mask_bottom_right=False,
            left_bound=left,
            right_bound=right,
            diagonal_alignment=alignment,
            dropout_probability=self.dropout_probability or None,
        )

    def check_operands(self, t: Ports) -> Iterator[Problem]:
        """Yield the problems of q, k and v when k and v are not paged."""
        q, k, v = t.dims("q"), t.dims("k"), t.dims("v")
        if k[0] != q[0] or k[3] != q[3]:
            wanted = f"dims [{q[0]}, heads, length, {q[3]}], as q's {list(q)}"
            yield t.problem("ATTN-02", "k", f"dims {list(k)}", wanted)
        if v[0] != k[0] or v[2] != k[2]:
            wanted = f"dims [{k[0]}, heads, {k[2]}, head dim], as k's {list(k)}"
            yield t.problem("ATTN-02", "v", f"dims {list(v)}", wanted)

    def check_shapes(self, t: Ports) -> Iterator[Problem]:
        """Yield the problems of q, k and v; nothing else can be checked when there are any."""
        for port in ("q", "k", "v"):
            dims, kind = t.dims(port), t[port].data_type
            if len(dims) != 4:
                yield t.problem("ATTN-01", port, f"rank {len(dims)}", "rank 4")
            elif not kind.is_float and kind is not DataType.UNSET:
                yield t.problem("ATTN-01", port, kind.json, "a floating data type")
        if any(len(t.dims(p)) != 4 for p in ("q", "k", "v")):
            return
        yield from self.check_operands(t)
        heads = t.dims("q")[1]
        for port in ("k", "v"):
            if heads % t.dims(port)[1]:
                yield t.problem(
                    "ATTN-03", port, f"{t.dims(port)[1]} heads", f"a divisor of q's {heads} heads"
                )

    def check(self, t: Ports) -> Iterator[Problem]:
        broken = list(self.check_shapes(t))
        yield from broken
        yield from self._check_parameters(t)
        for port in self.SCALARS:
            dims = t.given(port)
            if dims is not None and any(n != 1 for n in dims):
                yield t.problem("ATTN-05", port, f"dims {list(dims)}", "one element")
        if broken:
            return
        queries, keys = self.lengths(t)
        batch, heads = t.dims("q")[:2]
        full = (batch, heads, queries, keys)
        for port, rule in (("attn_mask", "ATTN-04"), ("dropout_mask", "ATTN-11")):
            dims = t.given(port)
            if dims is None:
                continue
            if len(dims) > 4 or any(
                n not in (1, m) for n, m in zip(dims[::-1], full[::-1], strict=False)
            ):
                wanted = f"dims that broadcast to {list(full)}"
                yield t.problem(rule, port, f"dims {list(dims)}", wanted)
            kind = t[port].data_type
            if not kind.is_float and not kind.is_bool and kind is not DataType.UNSET:
                yield t.problem(rule, port, kind.json, "a floating type, or boolean")
        yield from self._check_lengths(t, batch)

    def _check_parameters(self, t: Ports) -> Iterator[Problem]:
        if not t.compute.is_float:
            hint = 'pass compute_data_type="float"'
            got = t.compute.json
            yield t.problem("ATTN-12", "compute_data_type", got, "a floating type", hint)
        if "scale" in t and self.attn_scale_value is not None:
            got = f"{self.attn_scale_value} beside a scale tensor"
            yield t.problem("ATTN-05", "attn_scale_value", got, "one of the two")
        scale = self.attn_scale_value
        if scale is not None and not abs(scale) <= DataType.FLOAT.largest:
            hint = "leave it out for 1 over the square root of the head dim"
            wanted = "a finite float32 number"
            yield t.problem("ATTN-13", "attn_scale_value", scale, wanted, hint)
        for port, bound in (("left_bound", self.left_bound), ("right_bound", self.right_bound)):
            if bound is not None and bound < -1:
                yield t.problem("ATTN-07", port, bound, "at least 0, or -1 (or None) for open")
        if self.causal_mask and self.causal_mask_bottom_right:
            yield t.problem(
                "ATTN-08", "causal_mask", "both flags", "one of causal_mask and its bottom_right"
            )
        causal = self.causal_mask or self.causal_mask_bottom_right
        if causal and self.right_bound not in (None, -1, 0):
            got = f"{self.right_bound} beside a causal mask"
            yield t.problem("ATTN-08", "right_bound", got, "0, or nothing")
        if self.causal_mask and self.diagonal_alignment is DiagonalAlignment.BOTTOM_RIGHT:
            got = "BOTTOM_RIGHT beside causal_mask"
            hint = "pass right_bound=0 instead of causal_mask"
            yield t.problem("ATTN-08", "diagonal_alignment", got, "TOP_LEFT", hint)
        if self.alibi_mask and self.band[1] != 0:
            got = f"right bound {self.band[1]}"
            yield t.problem("ATTN-09", "alibi_mask", got, "right bound 0", "pass right_bound=0")
        if self.dropout_probability is not None and not 0 <= self.dropout_probability < 1:
            got = str(self.dropout_probability)
            yield t.problem("ATTN-10", "dropout_probability", got, "at least 0 and less than 1")
        if "dropout_mask" in t and self.dropout_probability:
            got = f"{self.dropout_probability} beside dropout_mask"
            yield t.problem("ATTN-11", "dropout_probability", got, "one of the two")

    def _check_lengths(self, t: Ports, batch: int) -> Iterator[Problem]:
        for port in ("seq_len_q", "seq_len_kv"):
            dims = t.given(port)
            if (dims is not None) != self.padding_mask:
                got = "nothing" if dims is None else f"{port} without padding_mask"
                wanted = "a tensor" if dims is None else "padding_mask=True"
                yield t.problem("ATTN-06", port, got, wanted)
            elif dims is not None:
                kind = t[port].data_type
                if dims != (batch, 1, 1, 1):
                    yield t.problem("ATTN-06", port, f"dims {list(dims)}", f"[{batch}, 1, 1, 1]")
                if kind not in (DataType.INT32, DataType.INT64):
                    yield t.problem("ATTN-06", port, kind.json, "int32 or int64")

    def follows(self, at: Axis) -> Follows:
        port, axis = at.port, at.axis + 4 - at.rank  # masks may have fewer dims
        forward = "o" in at.results
        band = at.given.band if isinstance(at.given, AttentionOp) else self.band
        bottom = band[2] and not self.padding_mask
        rows = [p for p in at.results if p not in ("amax_s", "amax_o")]  # those are of all entries
        if self.dropout_probability:
            return "which weights are dropped depends on its extent"
        if f"page_table_{port}" in at.dims:
            return "blocks, which a table picks"
        if axis == 0 and port in _PER_BATCH:
            return dict.fromkeys(rows, 0)
        if axis == 1:
            return "which heads share keys depends on their number"
        if axis == 2 and forward and port in ("q", "attn_mask", "dropout_mask"):
            return "the diagonal ends at the last query" if bottom else dict.fromkeys(rows, 2)
        if axis == 3 and forward and port == "v":
            return {p: 3 if p == "o" else None for p in rows}
        if axis == 2 and forward and port in ("k", "v") and self.padding_mask:
            # Weights beyond seq_len_kv are zero.
            return dict.fromkeys((p for p in rows if p != "rng_dump"), None)
        return "a sum over it"


def mask_fields(section: str, older: str = "") -> tuple[Field, ...]:
    """Return the fields of the parameters that both ops have, up to the diagonal."""
    flags = ("alibi_mask", "padding_mask", "causal_mask", "causal_mask_bottom_right")
    numbers = ("dropout_probability", "attn_scale_value")
    bounds = ("left_bound", "right_bound")
    return (
        *fields(Kind.BOOL, *flags, section=section, older=older, default=False),
        *fields(Kind.FLOAT, *numbers, section=section, older=older, absent=Absent.NULL),
        *fields(Kind.INT, *bounds, section=section, older=older, absent=Absent.NULL),
    )


def diagonal_field(section: str, older: str = "") -> Field:
    """Return the field of the diagonal's alignment."""
    return Field(
        name="diagonal_alignment",
        kind=Kind.ENUM,
        section=section,
        older=older,
        enum=DiagonalAlignment,
        default=DiagonalAlignment.TOP_LEFT,
    )


def alibi_slopes(heads: int) -> tuple[float, ...]:
    """Return ALiBi's slope of every head (Press, Smith and Lewis, 2022, and their code).

    With n the largest power of two up to ``heads``: 2^(-8(h+1)/n) for the first n heads, and
    2^(-4(2i+1)/n) for those left over.
    """
    n = 1 << (heads.bit_length() - 1)
    first = [2.0 ** (-8.0 * (h + 1) / n) for h in range(n)]
    rest = [2.0 ** (-4.0 * (2 * i + 1) / n) for i in range(heads - n)]
    return (*first, *rest)
