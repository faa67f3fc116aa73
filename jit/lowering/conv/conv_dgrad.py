"""Data gradient of a convolution, mostly by forward convolutions of dy with the filter turned.

For unit strides, dx is dy convolved with the filter whose taps are reversed and whose two channel
dims are exchanged.  With strides, zeros are put between the elements of dy first; taps that do
not overlap need none, as one matrix product makes all patches of dx.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from torch_mlir import ir

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.conv_dgrad import ConvDgrad
from ....graph_api.ops.conv_fprop import ConvFprop, ConvOp
from ...emit.builder import Builder, T, Value
from ..accumulate import operands
from .conv_fprop import convolve, doubled, framed, skips_dilation

__all__ = ["backward", "lower"]

# Weaving phases together costs more than inserted zeros do (64x56x56, stride 2: 10 ms to 1.5 ms).
_MOST_PHASES = 1


@dataclass(frozen=True, slots=True)
class _Phase:
    """What the positions of dx with one residue meet in one dim.

    ``count`` taps (``first``, ``first + step``...), and ``dy[start + m + e · dilation]`` at the
    phase's position m for the e-th tap from the end.
    """

    first: int
    step: int
    count: int
    start: int
    dilation: int


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit dx, the transpose of conv(·, w) applied to dy."""
    op = node.op
    assert isinstance(op, ConvDgrad)
    given = inputs["dy"], inputs["w"]
    if b.form == "plain":
        return {"dx": _plain(b, op, *operands(b, *given, node.compute_data_type))}
    dy, w, accumulate = operands(b, *given, node.compute_data_type, widen=b.target.is_cpu)
    if dy.shape[1] == 1 and skips_dilation(b, op):
        dy, w = doubled(b, dy, 1), doubled(b, w, 0)
    groups = op.dx_dims[1] // w.shape[1]
    overlap = any(k > t for k, t in zip(w.shape[2:], op.stride, strict=True))
    strided = prod(op.stride) > 1
    if b.form == "transposed":
        return {"dx": _transposed(b, dy, w, op, accumulate)}
    if b.form == "scattered":
        return {"dx": _scattered(b, dy, w, op, accumulate)}
    if not overlap and set(op.dilation) == {1}:
        return {"dx": _patches(b, dy, w, op, accumulate)}
    if b.target.is_gfx9 and groups == 1 and not strided and _reversed(op, w):
        # Reversing is a kernel of its own, so that its result lies as it is written here.
        turned = b.flip(b.permute(w, (1, 0, *range(2, w.rank))), range(2, w.rank))
        return {"dx": _woven(b, dy, turned, op, op.stride, accumulate)}
    # Reversed taps; CONVOLUTION mode reverses them too.
    backwards = w if op.conv_mode is ConvMode.CONVOLUTION else b.flip(w, range(2, w.rank))
    # Left to itself the compiler folds the exchange into the convolution, which on the CPU makes
    # scalar code and on gfx9 wrong numbers (channels-first dy with a channels-last filter).
    turned = b.materialise(_exchanged(b, backwards, groups))
    strides = op.stride
    if prod(strides) > _MOST_PHASES or (b.target.is_gfx9 and strided):
        # Slices of a filter with steps do not all compile for gfx9.
        dy, strides = _spread(b, dy, strides), (1,) * len(strides)
    return {"dx": _woven(b, dy, turned, op, strides, accumulate)}


def _plain(b: Builder, op: ConvDgrad, dy: Value, w: Value, accumulate: DataType) -> Value:
    """Return dx by torch's own op for gradients of convolutions."""
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = b.flip(w, range(2, w.rank))
    image = b.literal(0, dy.dtype, op.dx_dims)
    return backward(b, dy, image, w, op, accumulate, which=0)


def backward(
    b: Builder, dy: Value, x: Value, w: Value, op: ConvOp, accumulate: DataType, *, which: int
) -> Value:
    """Return one result of ``aten.convolution_backward``: 0 the image's, 1 the filter's."""
    like = (x, w)[which]
    nothing = ir.Type.parse("!torch.none")
    types = [nothing, nothing, nothing]
    types[which] = b.type(like.shape, accumulate)
    none = [0] * len(op.stride)
    made = T.AtenConvolutionBackwardOp(
        *types,
        *(v.ssa for v in (dy, x, w)),
        *map(b.constant, (None, list(op.stride), list(op.pre_padding), list(op.dilation), False)),
        *map(b.constant, (none, x.shape[1] // w.shape[1])),
        T.PrimListConstructOp(
            ir.Type.parse("!torch.list<bool>"), [b.constant(i == which) for i in range(3)]
        ).result,
    )
    return b.value(made.results[which], like.shape, accumulate)


def _scattered(b: Builder, dy: Value, w: Value, op: ConvDgrad, accumulate: DataType) -> Value:
    """Return dx by one product of dy with all taps, and sums of its columns for each phase.

    No zero is multiplied, unlike with zeros between the elements of dy.  Everything lies
    channels-last, so that a column is a run of channels.
    """
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = b.flip(w, range(2, w.rank))
    (filters, channels, *taps), rank = w.shape, len(op.stride)
    extents = [-(-n // s) for n, s in zip(op.dx_dims[2:], op.stride, strict=True)]
    phases = [
        [_phase(r, k, s, pre, d) for r in range(s)]
        for k, s, pre, d in zip(taps, op.stride, op.pre_padding, op.dilation, strict=True)
    ]
    before, after = [], []
    for size, extent, row in zip(dy.shape[2:], extents, phases, strict=True):
        met = [p for p in row if p.count]
        before.append(max(0, *(-p.start for p in met)))
        ends = (p.start + extent + (p.count - 1) * p.dilation for p in met)
        after.append(max(0, *(end - size for end in ends)))
    rows = b.permute(b.pad(dy, before, after), (0, *range(2, dy.rank), 1))
    weights = b.reshape(b.permute(w, (0, *range(2, w.rank), 1)), (filters, prod(taps) * channels))
    flat = b.reshape(rows, (prod(rows.shape[:-1]), filters))
    columns = b.call(T.AtenMmOp, (flat.shape[0], weights.shape[1]), accumulate, flat, weights)
    columns = b.reshape(columns, (*rows.shape[:-1], weights.shape[1]))
    parts: dict[tuple[int, ...], Value] = {}
    for residues in product(*(range(s) for s in op.stride)):
        here = [phases[i][r] for i, r in enumerate(residues)]
        parts[residues] = _gathered(b, columns, here, before, extents, taps, channels)
    whole = _interwoven(b, parts, op.stride, 1)
    for axis, n in enumerate(op.dx_dims[2:], 1):
        whole = b.slice(whole, axis, 0, n)
    return b.permute(whole, (0, rank + 1, *range(1, rank + 1)))


def _gathered(
    b: Builder,
    columns: Value,
    phases: Sequence[_Phase],
    before: Sequence[int],
    extents: Sequence[int],
    taps: Sequence[int],
    channels: int,
) -> Value:
    """Return the sum of what the taps of one phase add to its positions."""
    total: Value | None = None
    for each in product(*(range(p.count) for p in phases)):
        number, part = 0, columns
        for i, (phase, e) in enumerate(zip(phases, each, strict=True)):
            number = number * taps[i] + phase.first + (phase.count - 1 - e) * phase.step
            start = before[i] + phase.start + e * phase.dilation
            part = b.slice(part, 1 + i, start, start + extents[i])
        last = part.rank - 1
        part = b.slice(part, last, number * channels, (number + 1) * channels)
        total = part if total is None else b.add(total, part)
    if total is None:
        return b.literal(0, columns.dtype, (columns.shape[0], *extents, channels))
    return total


def _transposed(b: Builder, dy: Value, w: Value, op: ConvDgrad, accumulate: DataType) -> Value:
    """Return dx by a transposed convolution: for gfx9 with strides, the fewest dispatches.

    Torch pads both sides alike and takes padding off at both ends; what is then missing at the
    end (of the result) is output padding, what is too much is cut off.
    """
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = b.flip(w, range(2, w.rank))
    extra, extents = [], []
    for n, o, k, s, d, pre in zip(
        op.dx_dims[2:],
        dy.shape[2:],
        w.shape[2:],
        op.stride,
        op.dilation,
        op.pre_padding,
        strict=True,
    ):
        reach = (o - 1) * s + d * (k - 1) + 1 - 2 * pre
        extra.append(max(n - reach, 0))
        extents.append(reach + extra[-1])
    dx = b.call(
        T.AtenConvolutionOp,
        (*op.dx_dims[:2], *extents),
        accumulate,
        dy,
        w,
        None,
        list(op.stride),
        list(op.pre_padding),
        list(op.dilation),
        True,
        extra,
        1,
    )
    for axis, n in enumerate(op.dx_dims[2:], 2):
        dx = b.slice(dx, axis, 0, n)
    return dx


def _reversed(op: ConvDgrad, w: Value) -> bool:
    """Whether turning the filter round reverses taps (nothing folds through that)."""
    return op.conv_mode is not ConvMode.CONVOLUTION and max(w.shape[2:]) > 1


def _exchanged(b: Builder, w: Value, groups: int) -> Value:
    """Return the filter (groups · K, C, taps...) as (groups · C, K, taps...)."""
    filters, channels, *taps = w.shape
    split = b.reshape(w, (groups, filters // groups, channels, *taps))
    swapped = b.permute(split, (0, 2, 1, *range(3, split.rank)))
    return b.reshape(swapped, (groups * channels, filters // groups, *taps))


def _patches(b: Builder, dy: Value, w: Value, op: ConvDgrad, accumulate: DataType) -> Value:
    """Return dx where taps do not overlap: one matrix product makes all patches of dx."""
    dims = op.dx_dims
    groups, taps, rank = dims[1] // w.shape[1], w.shape[2:], len(op.stride)
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = b.flip(w, range(2, w.rank))
    flat = b.reshape(w, (groups, w.shape[0] // groups, w.shape[1] * prod(taps)))
    turned = b.permute(flat, (0, 2, 1))
    ones = (1,) * rank
    turned = b.reshape(turned, (dims[1] * prod(taps), w.shape[0] // groups, *ones))
    forward = ConvFprop(
        pre_padding=(0,) * rank, post_padding=(0,) * rank, stride=ones, dilation=ones
    )
    patches = convolve(b, dy, b.materialise(turned), forward, accumulate)
    extents = dy.shape[2:]
    patches = b.reshape(patches, (*dims[:2], *taps, *extents))
    patches = b.permute(patches, (0, 1, *(a for i in range(rank) for a in (2 + rank + i, 2 + i))))
    for i, (k, s) in enumerate(zip(taps, op.stride, strict=True)):
        patches = _extended(b, patches, 3 + 2 * i, s - k)
    whole = b.reshape(
        patches, (*dims[:2], *(o * s for o, s in zip(extents, op.stride, strict=True)))
    )
    for i, pre in enumerate(op.pre_padding):
        whole = _window(b, whole, 2 + i, pre, dims[2 + i])
    return whole


def _woven(
    b: Builder,
    dy: Value,
    turned: Value,
    op: ConvDgrad,
    strides: Sequence[int],
    accumulate: DataType,
) -> Value:
    dims = op.dx_dims
    extents = [-(-n // s) for n, s in zip(dims[2:], strides, strict=True)]
    parts: dict[tuple[int, ...], Value] = {}
    for residues in product(*(range(s) for s in strides)):
        phases = [
            _phase(r, k, s, pre, d)
            for r, k, s, pre, d in zip(
                residues, turned.shape[2:], strides, op.pre_padding, op.dilation, strict=True
            )
        ]
        parts[residues] = _convolved(b, dy, turned, phases, (*dims[:2], *extents), accumulate)
    whole = _interwoven(b, parts, strides, 2)
    for axis, n in enumerate(dims[2:], 2):
        whole = b.slice(whole, axis, 0, n)
    return whole


def _interwoven(
    b: Builder, parts: Mapping[tuple[int, ...], Value], strides: Sequence[int], first: int
) -> Value:
    """Return the phases by their residues as one image, whose spatial dims begin at ``first``."""
    for axis in reversed(range(len(strides))):
        parts = {
            residues[:-1]: _interleaved(
                b, [parts[(*residues[:-1], r)] for r in range(strides[axis])], first + axis
            )
            for residues in parts
            if not residues[-1]
        }
    return parts[()]


def _phase(residue: int, taps: int, stride: int, pre: int, dilation: int) -> _Phase:
    """Return what the positions ``i = residue, residue + stride...`` of dx meet in one dim.

    dx[i] sums w[t] · dy[(i + pre - t · dilation) / stride] over the taps that divide.
    """
    begin, rest = divmod(residue + pre, stride)
    common = gcd(stride, dilation)
    step = stride // common
    matching = [t for t in range(min(step, taps)) if (t * dilation - rest) % stride == 0]
    if not matching:
        return _Phase(0, 1, 0, 0, 1)
    first, apart = matching[0], dilation // common
    count = (taps - 1 - first) // step + 1
    start = begin - (first * dilation - rest) // stride - (count - 1) * apart
    return _Phase(first, step, count, start, apart)


def _convolved(
    b: Builder,
    dy: Value,
    turned: Value,
    phases: Sequence[_Phase],
    dims: tuple[int, ...],
    accumulate: DataType,
) -> Value:
    before, after = [], []
    for axis, phase in enumerate(phases, 2):
        size, have = dims[axis] + (phase.count - 1) * phase.dilation, dy.shape[axis]
        low, high = max(phase.start, 0), min(phase.start + size, have)
        if not phase.count or low >= high:
            return b.literal(0, accumulate, dims)
        before.append(low - phase.start)
        after.append(phase.start + size - high)
        dy = b.slice(dy, axis, low, high)
        # The turned filter has its taps in reverse.
        last = turned.shape[axis] - 1 - phase.first
        begin = last - (phase.count - 1) * phase.step
        turned = b.slice(turned, axis, begin, last + 1, phase.step)
    forward = ConvFprop(
        pre_padding=tuple(before),
        post_padding=tuple(after),
        stride=(1,) * len(phases),
        dilation=tuple(p.dilation for p in phases),
    )
    # One image whose only channel was doubled; that of more images is padded rightly, and whole
    # numbers are as well.
    doubled_one = dy.shape[:2] == (1, 2) and not dy.argument and skips_dilation(b, forward)
    joined = doubled_one and dy.dtype.is_float
    dy, forward = framed(b, dy, turned, forward, joined=joined)
    return convolve(b, dy, turned, forward, accumulate)


def _interleaved(b: Builder, parts: Sequence[Value], axis: int) -> Value:
    """Return the parts' elements along an axis in turns."""
    if len(parts) == 1:
        return parts[0]
    shape = parts[0].shape
    thin = [b.reshape(p, (*shape[: axis + 1], 1, *shape[axis + 1 :])) for p in parts]
    joined = b.concatenate(thin, axis + 1)
    return b.reshape(joined, (*shape[:axis], shape[axis] * len(parts), *shape[axis + 1 :]))


def _spread(b: Builder, x: Value, strides: Sequence[int]) -> Value:
    """Return x with ``stride - 1`` zeros between its elements along each spatial dim."""
    for axis, s in enumerate(strides, 2):
        shape = x.shape
        thin = b.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        wide = b.reshape(
            _extended(b, thin, axis + 1, s - 1),
            (*shape[:axis], shape[axis] * s, *shape[axis + 1 :]),
        )
        x = b.slice(wide, axis, 0, (shape[axis] - 1) * s + 1)
    return x


def _extended(b: Builder, x: Value, axis: int, count: int) -> Value:
    """Return x with zeros after it along an axis."""
    if not count:
        return x
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return b.concatenate([x, b.literal(0, x.dtype, shape)], axis)


def _window(b: Builder, x: Value, axis: int, start: int, size: int) -> Value:
    """Return ``size`` elements of x from ``start`` on, zeros where x has ended."""
    have = x.shape[axis]
    stop = min(start + size, have)
    if start >= stop:
        return b.literal(0, x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1 :]))
    return _extended(b, b.slice(x, axis, start, stop), axis, start + size - stop)
