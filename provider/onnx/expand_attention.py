# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention and rotary embedding as matmuls, softmax and element-wise ops."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from ...graph_api.dtypes import DataType
from .node_writer import Unserved, Writer

__all__ = ["EXPANSIONS"]


def _rotate(w: Writer, x: str, cos: str, sin: str, interleaved: bool) -> str:
    """Rotate all of the last dim of (B, S, H, D) by angles of (B or 1, S, 1, D/2)."""
    *outer, size = w.dims(x)
    half = size // 2
    if interleaved:
        parts = w.reshape(x, (*outer, half, 2))
        one, two = (w.reshape(w.slice(parts, -1, k, k + 1), (*outer, half)) for k in (0, 1))
    else:
        one, two = w.slice(x, -1, 0, half), w.slice(x, -1, half, size)

    def mixed(op: str, a: str, b: str) -> str:
        return w.pointwise(op, w.pointwise("Mul", a, cos), w.pointwise("Mul", b, sin))

    real, other = mixed("Sub", one, two), mixed("Add", two, one)
    if not interleaved:
        return w.concat([real, other], -1)
    pairs = [w.reshape(v, (*outer, half, 1)) for v in (real, other)]
    return w.reshape(w.concat(pairs, -1), (*outer, size))


def _rotary(
    w: Writer,
    x: str,
    positions: str,
    cos: str,
    sin: str,
    *,
    heads: int,
    rotated: int,
    interleaved: bool,
) -> str:
    """Rotate x of (B, H, S, D) or (B, S, H * D)."""
    dims = w.dims(x)
    if len(dims) == 4:
        turned = w.transpose(x, (0, 2, 1, 3))
    else:
        if not heads and rotated:
            heads = dims[2] // (w.dims(cos)[-1] * 2) if rotated == w.dims(cos)[-1] * 2 else 0
        heads = heads or dims[2] // (w.dims(cos)[-1] * 2)
        turned = w.reshape(x, (*dims[:2], heads, dims[2] // heads))
    _, length, heads, size = w.dims(turned)
    rotated = rotated or size
    if positions and w.dims(positions) == (1,):  # that of the first token
        every = w.pointwise("Add", w.cast(positions, DataType.INT64), _range(w, length))
        positions = w.reshape(every, (1, length))
    angles = []
    for table in (cos, sin):
        found = table
        if positions:
            at = w.dims(positions)
            found = w.op("Gather", [table, positions], (*at, w.dims(table)[-1]), axis=0)
        elif len(w.dims(table)) == 2:
            found = w.reshape(w.slice(table, 0, 0, length), (1, length, w.dims(table)[-1]))
        if w.dims(found)[-1] != rotated // 2:
            raise Unserved("cos_cache", list(w.dims(table)), f"{rotated // 2} angles")
        angles.append(w.reshape(found, (*w.dims(found)[:2], 1, rotated // 2)))
    made = _rotate(w, w.slice(turned, -1, 0, rotated), angles[0], angles[1], interleaved)
    if rotated < size:
        made = w.concat([made, w.slice(turned, -1, rotated, size)], -1)
    if len(dims) == 4:
        return w.transpose(made, (0, 2, 1, 3))
    return w.reshape(made, dims)


def _rotary_embedding(w: Writer) -> list[str]:
    return [
        _rotary(
            w,
            w.input(0),
            w.input(3),
            w.input(1),
            w.input(2),
            heads=w.integer("num_heads"),
            rotated=w.integer("rotary_embedding_dim"),
            interleaved=bool(w.integer("interleaved")),
        )
    ]


def _contrib_rotary(w: Writer) -> list[str]:
    w.must_be("is_packed_batching", 0)
    w.must_be("scale", 1.0)
    return [
        _rotary(
            w,
            w.input(0),
            w.input(1),
            w.input(2),
            w.input(3),
            heads=w.integer("num_heads"),
            rotated=w.integer("rotary_embedding_dim"),
            interleaved=bool(w.integer("interleaved")),
        )
    ]


# ------------------------------------------------------------------------ attention


def _heads(w: Writer, x: str, heads: int) -> str:
    """Return (B, S, H * D) as (B, H, S, D)."""
    batch, length, size = w.dims(x)
    return w.transpose(w.reshape(x, (batch, length, heads, size // heads)), (0, 2, 1, 3))


def _joined(w: Writer, x: str) -> str:
    """Return (B, H, S, D) as (B, S, H * D)."""
    batch, heads, length, size = w.dims(x)
    return w.reshape(w.transpose(x, (0, 2, 1, 3)), (batch, length, heads * size))


def _repeated(w: Writer, x: str, heads: int) -> str:
    """Return (B, G, S, D) with each of its heads repeated."""
    batch, groups, length, size = w.dims(x)
    if groups == heads:
        return x
    wide = w.expand(
        w.reshape(x, (batch, groups, 1, length, size)),
        (batch, groups, heads // groups, length, size),
    )
    return w.reshape(wide, (batch, heads, length, size))


def _range(w: Writer, count: int, start: int = 0) -> str:
    """Return the integers from ``start`` on."""
    return w.constant(range(start, start + count), (count,), DataType.INT64)


def _seen(w: Writer, rows: str, keys: int) -> str:
    """Return which keys are at or before the positions of queries: rows (..., S, 1)."""
    return w.pointwise("LessOrEqual", _range(w, keys), rows, DataType.BOOLEAN)


def _shown(w: Writer, scores: str, seen: str) -> str:
    """Return scores with those of keys that are not seen so low that they count for nothing."""
    hidden = w.scalar(_hidden(w.type(scores)), scores)
    return w.op("Where", [seen, scores, hidden], w.dims(scores), w.type(scores))


def _hidden(kind: DataType) -> float:
    """Return what hides a key: finite, so that JSON holds the graph, and below what is clamped."""
    return -65504.0 if kind is DataType.HALF else -3.4e38


def _masked_softmax(w: Writer, scores: str, *, robust: bool) -> str:
    """Return the softmax; ``robust``: a row of minus infinities gives zeros."""
    if not robust:
        return w.op("Softmax", [scores], w.dims(scores), axis=-1)
    dims = (*w.dims(scores)[:-1], 1)
    lowest = w.scalar(-3e38 if w.type(scores) is not DataType.HALF else -65000.0, scores)
    most = w.reduce("ReduceMax", scores, [len(dims) - 1], dims)
    safe = w.op("Max", [most, lowest], dims)
    powers = w.pointwise("Exp", w.pointwise("Sub", scores, safe))
    total = w.reduce("ReduceSum", powers, [len(dims) - 1], dims)
    none = w.pointwise("Equal", total, w.scalar(0, total), DataType.BOOLEAN)
    divisor = w.op("Where", [none, w.scalar(1, total), total], dims, w.type(total))
    return w.pointwise("Div", powers, divisor)


def _attention(w: Writer) -> list[str]:
    ends = w.input(6)  # how many keys of each row are none of the padding
    w.must_be("softmax_precision", 1, 10, 16, 11)
    w.must_be("left_window_size", -1)
    w.must_be("right_window_size", -1)
    q, k, v = (w.input(n) for n in range(3))
    flat = len(w.dims(q)) == 3
    if flat:
        kv = w.integer("kv_num_heads")
        q = _heads(w, q, w.integer("q_num_heads"))
        k, v = _heads(w, k, kv), _heads(w, v, kv)
    past = w.input(4)
    if past:
        k, v = w.concat([past, k], 2), w.concat([w.input(5), v], 2)
    present = k, v
    heads, size = w.dims(q)[1], w.dims(q)[3]
    scale = sqrt(w.number("scale") or 1 / sqrt(size))
    wide_k, wide_v = _repeated(w, k, heads), _repeated(w, v, heads)
    scores = w.matmul(w.scaled(q, scale), w.transpose(w.scaled(wide_k, scale), (0, 1, 3, 2)))
    mode = w.integer("qk_matmul_output_mode")
    stages = {0: scores}
    kind, keys = w.type(scores), w.dims(scores)[-1]
    mask, robust = w.input(3), False
    scores = stages[1] = _capped(w, scores, w.number("softcap"))
    if mask:
        if w.dims(mask)[-1] != keys:
            raise Unserved("attn_mask", list(w.dims(mask)), f"a mask for {keys} keys")
        if w.type(mask) is DataType.BOOLEAN:
            none, hidden = w.scalar(0, scores), w.scalar(_hidden(kind), scores)
            mask = w.op("Where", [mask, none, hidden], w.dims(mask), kind)
        robust = True
        scores = w.pointwise("Add", scores, w.cast(mask, kind))
    if ends:
        batch, robust = w.dims(ends)[0], True
        ends = w.reshape(w.cast(ends, DataType.INT64), (batch, 1, 1, 1))
        kept = w.pointwise("Less", _range(w, keys), ends, DataType.BOOLEAN)
        scores = _shown(w, scores, kept)
    if w.integer("is_causal"):
        length = w.dims(scores)[2]
        rows = w.reshape(_range(w, length, w.dims(past)[2] if past else 0), (length, 1))
        if ends:
            before = w.pointwise("Sub", ends, w.constant([length], (), DataType.INT64))
            rows = w.pointwise("Add", rows, before)
        scores = _shown(w, scores, _seen(w, rows, keys))
    elif not ends and not (mask and w.type(w.input(3)) is DataType.BOOLEAN):
        stages[2] = scores  # else minus infinity hides keys, which no graph holds
    weights = _masked_softmax(w, scores, robust=robust)
    stages[3] = weights
    y = w.matmul(weights, wide_v)
    if w.output(3) and mode not in stages:
        raise Unserved("qk_matmul_output_mode", mode, "another one, as keys are hidden")
    return [_joined(w, y) if flat else y, *present, stages[mode] if w.output(3) else ""]


def _causal(w: Writer, scores: str, offset: int) -> str:
    """Return scores where query i sees the keys up to i + offset."""
    length, keys = w.dims(scores)[-2:]
    rows = w.reshape(_range(w, length, offset), (length, 1))
    return _shown(w, scores, _seen(w, rows, keys))


def _multi_head_attention(w: Writer) -> list[str]:
    w.absent(8, 9)
    w.unwanted(3)
    heads = w.integer("num_heads")
    q, k, v = (w.input(n) for n in range(3))
    ranks = [len(w.dims(n)) if n else 0 for n in (q, k, v)]
    if ranks not in ([3, 3, 3], [3, 4, 4]):
        wanted = "3, and of key and value 3 or 4, as nothing is packed"
        raise Unserved("query", f"rank {ranks}", wanted)
    if w.input(3):
        if ranks[1] == 4:
            raise Unserved("bias", "given", "left out, as key and value have it")
        q, k, v = _biased(w, (q, k, v), w.input(3))
    q = _heads(w, q, heads)
    if ranks[1] == 3:
        k, v = _heads(w, k, heads), _heads(w, v, heads)
    past = w.input(6)
    if past:
        k, v = w.concat([past, k], 2), w.concat([w.input(7), v], 2)
    scale = w.number("scale") or 1 / sqrt(w.dims(q)[3])
    scores = w.scaled(w.matmul(q, w.transpose(k, (0, 1, 3, 2))), scale)
    if w.input(5):
        scores = w.pointwise("Add", scores, w.input(5))
    if w.input(4):
        scores = w.pointwise("Add", scores, _padding(w, w.input(4), scores))
    if w.integer("unidirectional"):
        scores = _causal(w, scores, w.dims(past)[2] if past else 0)
    weights = _masked_softmax(w, scores, robust=bool(w.input(5)))
    return [_joined(w, w.matmul(weights, v)), k, v]


def _biased(w: Writer, parts: Sequence[str], bias: str) -> list[str]:
    """Return query, key and value with their parts of a bias."""
    found, start = [], 0
    for x in parts:
        end = start + w.dims(x)[-1]
        found.append(w.pointwise("Add", x, w.slice(bias, 0, start, end)))
        start = end
    return found


def _padding(w: Writer, mask: str, scores: str) -> str:
    """Return what is added to scores by a mask of (B, keys), or by lengths of (B,)."""
    batch, _, _, keys = w.dims(scores)
    dims = w.dims(mask)
    if dims == (batch,):
        ends = w.reshape(w.cast(mask, DataType.INT64), (batch, 1))
        kept = w.pointwise("Less", _range(w, keys), ends, DataType.BOOLEAN)
    elif dims == (batch, keys):
        kept = w.pointwise("Greater", mask, w.scalar(0, mask), DataType.BOOLEAN)
    else:
        raise Unserved("key_padding_mask", list(dims), f"[{batch}] or [{batch}, {keys}]")
    low = w.scalar(w.number("mask_filter_value", -10000.0), scores)
    made = w.op("Where", [kept, w.scalar(0, scores), low], (batch, keys), w.type(scores))
    return w.reshape(made, (batch, 1, 1, keys))


def _group_query_attention(w: Writer) -> list[str]:
    """Attention over a past whose length each row has of its own, known at execution."""
    w.absent(12, 13)
    w.must_be("qk_output", 0)
    w.must_be("k_quant_type", "NONE")
    w.must_be("v_quant_type", "NONE")
    w.unwanted(3)
    heads, groups = w.integer("num_heads"), w.integer("kv_num_heads")
    q, k, v = _unpacked(w, heads, groups) if not w.input(1) else [w.input(n) for n in range(3)]
    batch, length, _ = w.dims(q)
    if w.dims(k)[1] != length:
        raise Unserved("key", list(w.dims(k)), f"{length} keys, as the past is apart")
    past, positions = w.input(3), w.input(9)
    first = _first_positions(w, batch, length) if past else ""
    steps = _range(w, length)
    if w.integer("do_rotary"):
        if positions:
            positions = _counted(w, positions, steps)
        elif past:
            positions = w.pointwise("Add", first, steps)
        angles = w.input(7), w.input(8)
        rotated = 2 * w.dims(angles[0])[-1]
        pairs = bool(w.integer("rotary_interleaved"))
        q, k = (
            _rotary(w, x, positions, *angles, heads=n, rotated=rotated, interleaved=pairs)
            for x, n in ((q, heads), (k, groups))
        )
    q, k, v = _heads(w, q, heads), _heads(w, k, groups), _heads(w, v, groups)
    rows = w.reshape(steps, (length, 1))
    if past:
        known = w.output(1)
        keys = w.dims(known)[2] if known else w.dims(past)[2] + length
        k, v = (_appended(w, w.input(3 + n), x, first, keys) for n, x in enumerate((k, v)))
        rows = w.pointwise("Add", rows, w.reshape(first, (batch, 1, 1, 1)))
    present = k, v
    scale = w.number("scale") or 1 / sqrt(w.dims(q)[3])
    wide_k, wide_v = _repeated(w, k, heads), _repeated(w, v, heads)
    scores = w.scaled(w.matmul(q, w.transpose(wide_k, (0, 1, 3, 2))), scale)
    scores = _capped(w, scores, w.number("softcap"))
    keys = w.dims(scores)[-1]
    if w.input(10):
        if w.dims(w.input(10))[-1] != keys:
            raise Unserved("attention_bias", list(w.dims(w.input(10))), f"a bias of {keys} keys")
        scores = w.pointwise("Add", scores, w.input(10))
    seen = _seen(w, rows, keys)
    window = w.integer("local_window_size", -1)
    if window >= 0:
        begin = w.pointwise("Sub", rows, w.constant([window], (), DataType.INT64))
        near = w.pointwise("Greater", _range(w, keys), begin, DataType.BOOLEAN)
        seen = w.pointwise("And", seen, near, DataType.BOOLEAN)
    scores = _shown(w, scores, seen)
    sink = w.input(11)
    if sink or w.integer("smooth_softmax") == 1:
        weights = _softmax_with_sink(w, scores, sink)
    else:
        weights = _masked_softmax(w, scores, robust=False)
    return [_joined(w, w.matmul(weights, wide_v)), *present]


def _unpacked(w: Writer, heads: int, groups: int) -> list[str]:
    """Return query, key and value of (B, S, (H + 2 G) * D)."""
    packed = w.input(0)
    each = w.dims(packed)[-1] // (heads + 2 * groups)
    ends = [heads * each, (heads + groups) * each, (heads + 2 * groups) * each]
    starts = [0, *ends[:-1]]
    return [w.slice(packed, -1, a, b) for a, b in zip(starts, ends, strict=True)]


def _first_positions(w: Writer, batch: int, length: int) -> str:
    """Return (B, 1): how many keys of each row are before its queries.

    ``seqlens_k`` is the number of keys less one; a padded prompt has fewer keys than queries, and
    nothing before.
    """
    last = w.reshape(w.cast(w.input(5), DataType.INT64), (batch, 1))
    before = w.pointwise("Sub", last, w.constant([length - 1], (), DataType.INT64))
    return w.pointwise("Max", before, w.constant([0], (), DataType.INT64))


def _counted(w: Writer, positions: str, steps: str) -> str:
    """Return the positions of tokens: those of a first prompt count on from its very first one.

    It is a first prompt where there are as many keys as queries.
    """
    dims, whole = w.dims(positions), DataType.INT64
    start = w.slice(w.slice(positions, 0, 0, 1), 1, 0, 1)
    counted = w.expand(w.pointwise("Add", start, steps), dims)
    if not w.input(3):
        return counted
    total = w.reshape(w.cast(w.input(6), whole), (1, 1))
    is_first = w.pointwise("Equal", total, w.constant([dims[1]], (), whole), DataType.BOOLEAN)
    return w.op("Where", [is_first, counted, positions], dims, whole)


def _appended(w: Writer, old: str, new: str, first: str, keys: int) -> str:
    """Return (B, G, keys, D): of each row ``first`` entries of the old, the new ones, zeros."""
    batch, groups, room, size = w.dims(old)
    length = w.dims(new)[2]
    whole = DataType.INT64
    at = _range(w, keys)
    moved = w.pointwise("Sub", w.pointwise("Add", at, w.constant([room], (), whole)), first)
    last = w.constant([room + length - 1], (), whole)
    is_old = w.pointwise("Less", at, first, DataType.BOOLEAN)
    index = w.op("Where", [is_old, at, w.pointwise("Min", moved, last)], (batch, keys), whole)
    # One table of all rows, as a gather takes one list of places.
    table = w.reshape(w.concat([old, new], 2), (batch * groups * (room + length), size))
    starts = [row * (room + length) for row in range(batch * groups)]
    place = w.pointwise(
        "Add",
        w.reshape(index, (batch, 1, keys)),
        w.constant(starts, (batch, groups, 1), whole),
    )
    found = w.op("Gather", [table, place], (batch, groups, keys, size), w.type(old), axis=0)
    ends = w.pointwise("Add", first, w.constant([length], (), whole))
    filled = w.reshape(w.pointwise("Less", at, ends, DataType.BOOLEAN), (batch, 1, keys, 1))
    return w.op("Where", [filled, found, w.scalar(0, found)], w.dims(found), w.type(old))


def _capped(w: Writer, scores: str, cap: float) -> str:
    """Return scores softly limited to a range; 0: as they are."""
    if not cap:
        return scores
    return w.scaled(w.pointwise("Tanh", w.scaled(scores, 1 / cap)), cap)


def _softmax_with_sink(w: Writer, scores: str, sink: str) -> str:
    """Return the softmax over one score more, which is 0 or one of each head, and is dropped."""
    batch, heads, length, keys = w.dims(scores)
    dims, kind = (batch, heads, length, 1), w.type(scores)
    one = w.reshape(sink, (1, heads, 1, 1)) if sink else w.constant([0], (1, 1, 1, 1), kind)
    wide = w.concat([scores, w.expand(w.cast(one, kind), dims)], -1)
    return w.slice(w.op("Softmax", [wide], w.dims(wide), axis=-1), -1, 0, keys)


EXPANSIONS = {
    ("", "Attention"): _attention,
    ("", "RotaryEmbedding"): _rotary_embedding,
    ("com.microsoft", "GroupQueryAttention"): _group_query_attention,
    ("com.microsoft", "MultiHeadAttention"): _multi_head_attention,
    ("com.microsoft", "RotaryEmbedding"): _contrib_rotary,
}
"""As of `expand.EXPANSIONS`."""
