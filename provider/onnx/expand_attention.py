"""Attention and rotary embedding as matmuls, softmax and element-wise ops."""

from __future__ import annotations

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
    w: Writer, x: str, positions: str, cos: str, sin: str, *, heads: int, rotated: int
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
    angles = []
    for table in (cos, sin):
        found = table
        if positions:
            at = w.dims(positions)
            if at == (1,) or len(at) == 1:
                raise Unserved("position_ids", list(at), "positions of each token")
            found = w.op("Gather", [table, positions], (*at, w.dims(table)[-1]), axis=0)
        elif len(w.dims(table)) == 2:
            found = w.reshape(w.slice(table, 0, 0, length), (1, length, w.dims(table)[-1]))
        if w.dims(found)[-1] != rotated // 2:
            raise Unserved("cos_cache", list(w.dims(table)), f"{rotated // 2} angles")
        angles.append(w.reshape(found, (*w.dims(found)[:2], 1, rotated // 2)))
    interleaved = bool(w.integer("interleaved"))
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


def _causal(w: Writer, length: int, keys: int, offset: int, kind: DataType) -> str:
    """Return 0 where a query sees a key, else minus infinity."""
    seen = [0.0 if j <= i + offset else float("-inf") for i in range(length) for j in range(keys)]
    return w.constant(seen, (length, keys), kind)


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
    w.absent(6)
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
    kind, (length, keys) = w.type(scores), w.dims(scores)[-2:]
    mask, robust = w.input(3), False
    cap = w.number("softcap")
    if cap:
        scores = w.scaled(w.pointwise("Tanh", w.scaled(scores, 1 / cap)), cap)
    if mask:
        if w.dims(mask)[-1] != keys:
            raise Unserved("attn_mask", list(w.dims(mask)), f"a mask for {keys} keys")
        if w.type(mask) is DataType.BOOLEAN:
            none, hidden = w.scalar(0, scores), w.scalar(_hidden(kind), scores)
            mask = w.op("Where", [mask, none, hidden], w.dims(mask), kind)
        robust = True
        scores = w.pointwise("Add", scores, w.cast(mask, kind))
    if w.integer("is_causal"):
        offset = w.dims(past)[2] if past else 0
        scores = w.pointwise("Add", scores, _causal(w, length, keys, offset, kind))
    weights = _masked_softmax(w, scores, robust=robust)
    stages[3] = weights
    y = w.matmul(weights, wide_v)
    if w.output(3) and mode not in stages:
        raise Unserved("qk_matmul_output_mode", mode, "0 or 3")
    return [_joined(w, y) if flat else y, *present, stages[mode] if w.output(3) else ""]


def _multi_head_attention(w: Writer) -> list[str]:
    w.absent(3, 4, 6, 7)
    w.unwanted(1, 2, 3)
    heads = w.integer("num_heads")
    if any(len(w.dims(w.input(n))) != 3 for n in range(3) if w.input(n)) or not w.input(2):
        raise Unserved("query", "packed or of another rank", "query, key and value of rank 3")
    q, k, v = (_heads(w, w.input(n), heads) for n in range(3))
    scale = w.number("scale") or 1 / sqrt(w.dims(q)[3])
    scores = w.scaled(w.matmul(q, w.transpose(k, (0, 1, 3, 2))), scale)
    if w.input(5):
        scores = w.pointwise("Add", scores, w.input(5))
    if w.integer("unidirectional"):
        length, keys = w.dims(scores)[-2:]
        mask = _causal(w, length, keys, keys - length, w.type(scores))
        scores = w.pointwise("Add", scores, mask)
    weights = _masked_softmax(w, scores, robust=bool(w.input(5)))
    return [_joined(w, w.matmul(weights, v))]


def _group_query_attention(w: Writer) -> list[str]:
    w.absent(3, 4, 9, 10, 11, 12, 13)
    w.must_be("local_window_size", -1)
    w.must_be("softcap", 0.0)
    w.must_be("smooth_softmax", 0, -1)
    w.must_be("qk_output", 0)
    w.unwanted(3)
    heads, groups = w.integer("num_heads"), w.integer("kv_num_heads")
    q, k, v = (w.input(n) for n in range(3))
    if not k or not v or any(len(w.dims(n)) != 3 for n in (q, k, v)):
        raise Unserved("key", "packed or of another rank", "query, key and value of rank 3")
    length = w.dims(q)[1]
    if w.dims(k)[1] != length:
        raise Unserved("key", list(w.dims(k)), f"{length} keys, as there is no past")
    # Without a past all rows are full, or the mask would depend on what is known at execution.
    if set(w.integers(w.input(5))) != {length - 1}:
        raise Unserved("seqlens_k", w.integers(w.input(5)), f"{length - 1} in each row")
    if w.integer("do_rotary"):
        w_cos, w_sin = w.input(7), w.input(8)
        q, k = (
            _rotary(w, x, "", w_cos, w_sin, heads=n, rotated=2 * w.dims(w_cos)[-1])
            for x, n in ((q, heads), (k, groups))
        )
    q, k, v = _heads(w, q, heads), _heads(w, k, groups), _heads(w, v, groups)
    present = k, v
    scale = w.number("scale") or 1 / sqrt(w.dims(q)[3])
    wide_k, wide_v = _repeated(w, k, heads), _repeated(w, v, heads)
    scores = w.scaled(w.matmul(q, w.transpose(wide_k, (0, 1, 3, 2))), scale)
    scores = w.pointwise("Add", scores, _causal(w, length, length, 0, w.type(scores)))
    y = w.matmul(_masked_softmax(w, scores, robust=False), wide_v)
    return [_joined(w, y), *present]


EXPANSIONS = {
    ("", "Attention"): _attention,
    ("", "RotaryEmbedding"): _rotary_embedding,
    ("com.microsoft", "GroupQueryAttention"): _group_query_attention,
    ("com.microsoft", "MultiHeadAttention"): _multi_head_attention,
    ("com.microsoft", "RotaryEmbedding"): _contrib_rotary,
}
"""As of `expand.EXPANSIONS`."""
