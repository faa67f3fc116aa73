# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention: PyTorch's fused function where masks are none or causal, else a formula.

The fused function says nothing about rows in which no key is visible, and returns no statistics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ....graph_api.errors import Problem
from ....graph_api.ops.attention import alibi_slopes
from .torch_op import Kernel, NodeContext, TorchOp, dtype, loads, number

_SERVED = (
    *("q", "k", "v", "attn_mask", "scale", "seq_len_q", "seq_len_kv"),
    *("dropout_mask", "dropout_scale", "sink_token"),
)
_LENGTHS = ("seq_len_q", "seq_len_kv")


def _problems(n: NodeContext) -> Iterator[Problem]:
    yield from n.only_floats()
    for port in n.inputs:
        if port not in _SERVED:
            yield n.problem("TORCH-ENG-07", port, "a tensor", "nothing")
    for port in n.outputs:
        if port not in ("o", "stats", "max", "sum_exp"):
            yield n.problem("TORCH-ENG-07", port, "a result", "o, stats, max or sum_exp")
    if n.op.dropout_probability:
        got = n.op.dropout_probability
        yield n.problem("TORCH-ENG-07", "dropout_probability", got, "a dropout_mask, or nothing")


def _scale(n: NodeContext) -> float | None:
    """Return the factor of the logits, None when it comes with the buffers."""
    if "scale" in n.inputs:
        return number(n, "scale")
    given = n.op.attn_scale_value
    return n.inputs["q"].dims[3] ** -0.5 if given is None else float(given)


def _sdpa(n: NodeContext, torch: Any) -> Kernel:
    op = n.op
    left, right, bottom = op.band
    plain = set(n.inputs) <= {"q", "k", "v", "scale"} and len(n.outputs) == 1
    causal = (left, right, bottom) == (None, 0, False)
    free = (left, right) == (None, None)
    heads = {n.inputs[p].dims[1] for p in ("k", "v")}
    if plain and (causal or free) and not op.alibi_mask and len(heads) == 1:
        scale = _scale(n)
        if scale is not None:
            return _fused(n, torch, scale, causal)
    return _formula(n, torch)


def _fused(n: NodeContext, torch: Any, scale: float, causal: bool) -> Kernel:
    attend = torch.nn.functional.scaled_dot_product_attention
    grouped = n.inputs["q"].dims[1] != n.inputs["k"].dims[1]

    def run(q: Any, k: Any, v: Any, *_: Any) -> Any:
        return attend(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)

    return Kernel(run=run, loads=loads(n, torch))


def _formula(n: NodeContext, torch: Any) -> Kernel:
    op, ports, kind = n.op, tuple(n.inputs), dtype(torch, n.internal)
    _, heads, queries, _ = n.inputs["q"].dims
    keys, fixed = n.inputs["k"].dims[2], _scale(n)
    slopes = torch.tensor(alibi_slopes(heads), dtype=kind).reshape(1, heads, 1, 1)
    i = torch.arange(queries).reshape(1, 1, queries, 1)
    j = torch.arange(keys).reshape(1, 1, 1, keys)
    left, right, bottom = op.band

    def visible(v: dict[str, Any]) -> tuple[Any, Any]:
        """Return which keys each query sees, None for all, and how far they are behind it."""
        shift: Any = keys - queries if bottom else 0
        lengths = [v[p].reshape(-1, 1, 1, 1) for p in _LENGTHS] if op.padding_mask else []
        if bottom and lengths:
            shift = lengths[1] - lengths[0]
        distance = j - (i + shift)
        seen = [] if right is None else [distance <= right]
        seen += [] if left is None else [distance >= -left]
        seen += [i < lengths[0], j < lengths[1]] if lengths else []
        found = None
        for part in seen:
            found = part if found is None else found & part
        return found, distance

    def logits_of(v: dict[str, Any]) -> Any:
        q, k = v["q"], _per_head(v["k"], heads)
        logits = torch.matmul(q, k.transpose(-1, -2))
        logits = logits * (v["scale"].reshape(()) if fixed is None else fixed)
        seen, distance = visible(v)
        mask = v.get("attn_mask")
        if mask is not None and mask.dtype is torch.bool:
            seen = mask if seen is None else seen & mask
        elif mask is not None:
            logits = logits + mask
        if op.alibi_mask:
            logits = logits + slopes * distance
        return logits if seen is None else logits.masked_fill(~seen, -math.inf)

    def run(*operands: Any) -> Any:
        v = dict(zip(ports, operands, strict=True))
        logits = logits_of(v)
        largest = torch.amax(logits, -1, keepdim=True)
        sink = v.get("sink_token")
        if sink is not None:
            sink = sink.reshape(1, -1, 1, 1)
            largest = torch.maximum(largest, sink)
        # A row in which nothing is visible gives 0.
        shift = torch.where(torch.isneginf(largest), 0.0, largest)
        e = torch.exp(logits - shift)
        total = torch.sum(e, -1, keepdim=True)
        total = total if sink is None else total + torch.exp(sink - shift)
        weights = e / torch.where(total == 0, 1.0, total)
        if "dropout_mask" in v:
            weights = weights * v["dropout_mask"]
        o = torch.matmul(weights, _per_head(v["v"], heads))
        if "dropout_scale" in v:
            o = o * v["dropout_scale"].reshape(())
        found = {"o": o, "max": largest, "sum_exp": total}
        if "stats" in n.outputs:
            found["stats"] = largest + torch.log(torch.where(total == 0, 1.0, total))
        made = tuple(found[port] for port in n.outputs)
        return made if len(made) > 1 else made[0]

    own = tuple(p for p in ports if n.inputs[p].data_type.is_bool or p in _LENGTHS)
    return Kernel(run=run, loads=loads(n, torch, own=own))


def _per_head(x: Any, heads: int) -> Any:
    """Return keys or values for each head of the queries."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


TORCH = TorchOp(problems=_problems, kernel=_sdpa)
