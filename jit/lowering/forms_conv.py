"""The forms of convolutions and their gradients, and the rules that choose among them.

Ratios are of time on two cores of a Zen 5 EPYC to oneDNN's, float32, one thread; ``docs/forms.md``
has the measurements.
"""

from __future__ import annotations

from math import prod

from ...graph_api.dtypes import DataType
from ...graph_api.ops.conv_fprop import ConvOp
from ..emit.dims import Dim
from ..target import Target
from .form import Form, Site

__all__ = [
    "DGRAD",
    "FPROP",
    "WGRAD",
    "dgrad_rule",
    "forward_form",
    "fprop_rule",
    "takes_frame",
    "wgrad_rule",
]

Ints = tuple[int, ...]

# Beyond it the many small convolutions take longer to compile (6 s for 32) than they save.
MOST_GROUPS = 16
# A shifted sum has a term per tap; above this many taps the code grows more than it gains.
MOST_TAPS = 49
# Multiply-adds below which a convolution op is quick enough (20 µs), and compiles in a third of
# the time that the products take.
_SMALL = 1 << 21

IMG2COL = (
    "--iree-preprocessing-pass-pipeline="
    "builtin.module(util.func(iree-global-opt-convert-conv2d-to-img2col))"
)


def forward_form(
    target: Target, x: Ints, w: Ints, op: ConvOp, compute: DataType, *, last: bool = False
) -> str:
    """Return the form of a forward convolution of dims x with a filter of dims w, by rule.

    ``last`` says that x lies channels-last.
    """
    groups = x[1] // w[1]
    if not target.is_cpu:
        # torch-mlir multiplies grouped 3-D convolutions of integers as floats, and fails.
        return "per_group" if _integer_3d(x, groups, compute) else "direct"
    taps, dynamic = prod(w[2:]), any(isinstance(d, Dim) for d in x)
    if groups > 1:
        if w[0] == groups and w[1] == 1:
            return _depthwise_form(x, w, op, compute, last=last)
        few = w[1] > 1 and groups <= MOST_GROUPS
        return "per_group" if few or _integer_3d(x, groups, compute) else "direct"
    positions = x[0] * prod(op.output_extents(x[2:], w[2:]))
    heavy = positions * w[0] * w[1] * taps >= _SMALL
    if compute is not DataType.FLOAT or dynamic or not heavy or taps == 1 or taps > MOST_TAPS:
        return "direct"
    return "gathered" if _strided(op) or w[2:].count(1) else "shifted"


def takes_frame(x: Ints, w: Ints, op: ConvOp) -> bool:
    """Return whether a padded convolution of dims x and w wants its frame joined on, on gfx9.

    That is where the filter covers image and frame, where a dim with steps has one tap, and for
    one dilated channel of one image (``conv_fprop.framed`` says why).
    """
    taps = w[2:]
    if not any((*op.pre_padding, *op.post_padding)):
        return False
    cut = any(k == 1 < s for k, s in zip(taps, op.stride, strict=True))
    covered = set(op.output_extents(x[2:], taps)) == {1}
    return cut or covered or (x[:2] == (1, 1) and max(op.dilation) > 1)


def _depthwise_form(x: Ints, w: Ints, op: ConvOp, compute: DataType, *, last: bool) -> str:
    dynamic, taps = any(isinstance(d, Dim) for d in x), prod(w[2:])
    # Of more taps the sum falls into many loops (5x5: 2 ms of CPU time instead of 0.3).
    if (last or taps > 9) and _planar(len(x), compute, dynamic=dynamic):
        return "channels_last"
    if taps <= MOST_TAPS and not (dynamic and _strided(op)):
        return "taps"
    return "per_group" if _integer_3d(x, x[1], compute) else "direct"


def _planar(rank: int, compute: DataType, *, dynamic: bool) -> bool:
    floats = compute in (DataType.FLOAT, DataType.DOUBLE)
    return floats and rank - 2 in (1, 2) and not dynamic


def _strided(op: ConvOp) -> bool:
    return max(op.stride, default=1) > 1


def _integer_3d(x: Ints, groups: int, compute: DataType) -> bool:
    return groups > 1 and len(x) == 5 and compute.is_integer


# ---------------------------------------------------------------------------- what fits where


def _always(site: Site) -> bool:
    return True


def _groups(site: Site) -> int:
    channels = site.dims("dx" if "dx" in site.node.outputs else "x")[1]
    return channels // site.dims("dw" if "dw" in site.node.outputs else "w")[1]


def _op(site: Site) -> ConvOp:
    op = site.node.op
    assert isinstance(op, ConvOp)
    return op


def _direct(site: Site) -> bool:
    return not _integer_3d(site.dims("x"), _groups(site), site.compute)


def _products(site: Site) -> bool:
    floats = site.compute in (DataType.FLOAT, DataType.DOUBLE)
    few = prod(site.dims("w")[2:]) <= MOST_TAPS
    return site.target.is_cpu and _groups(site) == 1 and floats and few and not site.dynamic


def _one_group(site: Site) -> bool:
    flat = len(site.dims("x")) == 4
    return site.target.is_cpu and _groups(site) == 1 and flat and site.compute.is_float


def _winograd(site: Site) -> bool:
    op, taps = _op(site), site.dims("w")[2:]
    near = set(op.stride) == {1} == set(op.dilation)
    return _products(site) and taps == (3, 3) and near


def _depthwise(site: Site) -> bool:
    filters, channels, *taps = site.dims("w")
    open_steps = site.dynamic and _strided(_op(site))
    alone = channels == 1 and filters == _groups(site) > 1 and prod(taps) <= MOST_TAPS
    return site.target.is_cpu and alone and not open_steps


def _flat_depthwise(site: Site) -> bool:
    filters, channels, *_ = site.dims("w")
    alone = channels == 1 and filters == _groups(site) > 1
    planar = _planar(len(site.dims("x")), site.compute, dynamic=site.dynamic)
    return site.target.is_cpu and alone and planar


def _grouped(site: Site) -> bool:
    return (1 < _groups(site) <= MOST_GROUPS and site.dims("w")[1] > 1) or _needs_parts(site)


def _needs_parts(site: Site) -> bool:
    return _integer_3d(site.dims("x"), _groups(site), site.compute)


FPROP = (
    Form(
        name="direct",
        help="one convolution op; a filter that does not lie as logical is copied first",
        fits=_direct,
        why="all but grouped 3-D convolutions of integers",
    ),
    Form(
        name="shifted",
        help="all taps but those of the last dim joined as channels, one matrix product for all "
        "of the last dim's taps, and a sum of its columns, shifted",
        fits=_products,
        why="one group, float or double compute, up to 49 taps, fixed dims, on the CPU",
    ),
    Form(
        name="gathered",
        help="all taps joined as channels, dim by dim, and one matrix product",
        fits=_products,
        why="one group, float or double compute, up to 49 taps, fixed dims, on the CPU",
    ),
    Form(
        name="winograd",
        help="F(2x2, 3x3): 16 products of transformed tiles; fewer multiplications, but errors "
        "relative to the largest value nearby, and infinities become NaN",
        fits=_winograd,
        why="3x3 taps without steps and dilation, and what 'shifted' fits",
    ),
    Form(
        name="img2col",
        help="one convolution op, which IREE's pass makes a matrix product of",
        fits=_one_group,
        why="2-D convolutions of floats with one group, on the CPU",
        flags=(IMG2COL,),
    ),
    Form(
        name="taps",
        help="the image, shifted, times one number per channel, summed over the taps",
        fits=_depthwise,
        why="depthwise convolutions with as many filters as channels, on the CPU",
    ),
    Form(
        name="channels_last",
        help="linalg's depthwise convolution of a channels-last image, which the Torch dialect "
        "has no op for",
        fits=_flat_depthwise,
        why="depthwise convolutions with as many filters as channels, one or two spatial dims, "
        "float or double compute, fixed dims, on the CPU",
    ),
    Form(
        name="per_group",
        help="one convolution per group, joined",
        fits=_grouped,
        why="2 to 16 groups of several channels",
    ),
    Form(
        name="plain",
        help="one convolution op on the operands as they come: for comparison (on gfx9 IREE 3.13 "
        "compiles some wrongly)",
        fits=_direct,
        why="all but grouped 3-D convolutions of integers",
        tried=False,
    ),
)


def fprop_rule(site: Site) -> str:
    """Return the default form of a forward convolution."""
    x, op = site.dims("x"), _op(site)
    if site.dynamic:
        x = tuple(Dim(d, (str(i),)) if not i else d for i, d in enumerate(x))
    strides = site.graph.tensors[site.node.inputs["x"]].strides
    last = len(strides) > 2 and strides[1] == 1 < strides[-1]
    return forward_form(site.target, x, site.dims("w"), op, site.compute, last=last)


# ---------------------------------------------------------------------------- gradients


def _float_data(site: Site) -> bool:
    return site.compute.is_float and _groups(site) == 1


def _transposable(site: Site) -> bool:
    return _float_data(site) and not site.dynamic


def _scattered(site: Site) -> bool:
    floats = site.compute in (DataType.FLOAT, DataType.DOUBLE)
    few = prod(site.dims("w")[2:]) <= MOST_TAPS
    return site.target.is_cpu and _groups(site) == 1 and floats and few and not site.dynamic


_PLAIN_GRADIENT = Form(
    name="plain",
    help="one op for the gradient of a convolution, on the operands as they come: for "
    "comparison (on gfx9 IREE 3.13 compiles some wrongly)",
    fits=lambda site: site.compute.is_float and not site.dynamic and _symmetric(site),
    why="a compute type of floats, equal padding on both sides, fixed dims",
    tried=False,
)

DGRAD = (
    Form(
        name="flipped",
        help="a forward convolution of dy, zeros between its elements, with the filter turned",
        fits=_always,
    ),
    Form(
        name="scattered",
        help="one matrix product for all taps, whose columns are added where they belong, phase "
        "by phase of the stride",
        fits=_scattered,
        why="one group, float or double compute, up to 49 taps, fixed dims, on the CPU",
    ),
    Form(
        name="transposed",
        help="one transposed convolution op",
        fits=_transposable,
        why="one group, a compute type of floats, fixed dims",
    ),
    _PLAIN_GRADIENT,
)


def _symmetric(site: Site) -> bool:
    return _op(site).pre_padding == _op(site).post_padding


def dgrad_rule(site: Site) -> str:
    """Return the default form of a data gradient."""
    strided = prod(_op(site).stride) > 1
    if site.target.is_gfx9:
        return "transposed" if strided and _transposable(site) else "flipped"
    macs = prod(site.dims("dy")) * prod(site.dims("w")[1:])
    heavy = strided and macs >= _SMALL and site.compute is DataType.FLOAT
    return "scattered" if heavy and _scattered(site) else "flipped"


WGRAD = (
    Form(
        name="products",
        help="a matrix product of dy and the shifted image for each tap",
        fits=lambda site: (
            (site.target.is_cpu and prod(site.dims("dw")[2:]) <= MOST_TAPS) or _unpadded_tap(site)
        ),
        why="up to 49 taps on the CPU, one tap without padding and steps elsewhere",
    ),
    Form(
        name="correlated",
        help="the image convolved with dy, batch and channels exchanged",
        fits=_always,
    ),
    _PLAIN_GRADIENT,
)


def _unpadded_tap(site: Site) -> bool:
    op = _op(site)
    return (
        prod(site.dims("dw")[2:]) == 1
        and set(op.stride) == {1}
        and not any((*op.pre_padding, *op.post_padding))
    )


def wgrad_rule(site: Site) -> str:
    """Return the default form of a weight gradient."""
    return "products" if WGRAD[0].fits(site) else "correlated"
