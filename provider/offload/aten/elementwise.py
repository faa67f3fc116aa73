# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Aten ops that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

from ....graph_api.dtypes import DataType
from ....graph_api.tensor import Tensor
from .call import AtenOp, Call, Family, compute_type

__all__ = ["OPS"]

Build = Callable[[Call], Tensor]


def _floating(c: Call) -> None:
    """Refuse results that are no floats: the function is one of real numbers."""
    kind = c.result().data_type
    if not kind.is_float:
        raise c.refuse("result", kind.json, "a floating type")


def _unary(mode: str, *, real: bool = True) -> Build:
    def build(c: Call) -> Tensor:
        if real:
            _floating(c)
        return c.pointwise(mode, c.tensor("self"))

    return build


def _binary(mode: str) -> Build:
    def build(c: Call) -> Tensor:
        return c.pointwise(mode, c.operand("self"), c.operand("other"))

    return build


def _scaled(mode: str) -> Build:
    """Return ``self (mode) alpha · other``."""

    def build(c: Call) -> Tensor:
        other, alpha = c.operand("other"), c.number("alpha")
        if alpha != 1:
            if isinstance(alpha, float) and not c.compute.is_float:
                raise c.refuse("alpha", alpha, "an integer, as the result is of integers")
            other = other * alpha if not isinstance(other, Tensor) else _times(c, other, alpha)
        return c.pointwise(mode, c.operand("self"), other)

    return build


def _times(c: Call, x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else c.pointwise("mul", x, factor)


def _rsub(c: Call) -> Tensor:
    """Return ``other - alpha · self``."""
    scaled = _times(c, c.tensor("self"), c.number("alpha"))
    return c.pointwise("sub", c.operand("other"), scaled)


def _divide(c: Call) -> Tensor:
    _floating(c)
    return c.pointwise("div", c.operand("self"), c.operand("other"))


def _divide_rounded(c: Call) -> Tensor:
    _floating(c)
    c.must_be("rounding_mode", None, "floor")
    quotient = c.pointwise("div", c.operand("self"), c.operand("other"))
    return c.pointwise("floor", quotient) if c.has("rounding_mode") else quotient


def _compare(mode: str) -> Build:
    """Return truth; compared is in the wider type of both sides."""

    def build(c: Call) -> Tensor:
        sides = (c.operand("self"), c.operand("other"))
        kinds = [c.type("self").data_type]
        if isinstance(sides[1], Tensor):
            kinds.append(c.type("other").data_type)
        elif isinstance(sides[1], float):
            kinds.append(DataType.FLOAT)
        kind = compute_type(*kinds)
        if kind.is_bool:
            kind = DataType.INT32
        return c.graph.pointwise(*sides, mode=mode, compute_data_type=kind)

    return build


def _logical(mode: str) -> Build:
    def build(c: Call) -> Tensor:
        kind = _truth_type(c)
        if mode == "xor":
            sides = [
                c.graph.pointwise(c.tensor(port), 0, mode="cmp_neq", compute_data_type=kind)
                for port in ("self", "other")
            ]
            return c.graph.pointwise(*sides, mode="cmp_neq", compute_data_type=DataType.INT32)
        ports = ("self",) if mode == "logical_not" else ("self", "other")
        return c.graph.pointwise(*map(c.tensor, ports), mode=mode, compute_data_type=kind)

    return build


def _truth_type(c: Call) -> DataType:
    kind = compute_type(c.type("self").data_type)
    return DataType.INT32 if kind.is_bool else kind


def _not_a_number(c: Call) -> Tensor:
    x, kind = c.tensor("self"), compute_type(c.type("self").data_type)
    return c.graph.pointwise(x, x, mode="cmp_neq", compute_data_type=kind)


def _where(c: Call) -> Tensor:
    return c.pointwise(
        "binary_select", c.operand("self"), c.operand("other"), c.tensor("condition")
    )


def _masked(c: Call) -> Tensor:
    return c.pointwise("binary_select", _value(c), c.tensor("self"), c.tensor("mask"))


def _value(c: Call) -> Tensor | bool | int | float:
    """Return what a mask puts in, which may be infinite."""
    found = c.tensor("value") if c.is_value("value") else c.constant("value")
    if isinstance(found, Tensor | bool | int | float):
        return found
    raise c.refuse("value", found, "a number or a tensor")


def _relu6(c: Call) -> Tensor:
    return c.pointwise("relu_fwd", c.tensor("self"), relu_upper_clip=6.0)


def _clamp(c: Call) -> Tensor:
    lower, upper = (c.operand(p) if c.has(p) else None for p in ("min", "max"))
    return _between(c, c.tensor("self"), lower, upper)


def _hardtanh(c: Call) -> Tensor:
    return _between(c, c.tensor("self"), c.number("min_val"), c.number("max_val"))


def _between(c: Call, x: Tensor, lower: object, upper: object) -> Tensor:
    for mode, limit in (("max_op", lower), ("min_op", upper)):
        if isinstance(limit, float) and not c.compute.is_float:
            raise c.refuse(mode[:3], limit, "an integer, as the tensor is of integers")
        if isinstance(limit, Tensor | int | float):
            x = c.pointwise(mode, x, limit)
    return x


def _leaky_relu(c: Call) -> Tensor:
    _floating(c)
    slope = c.number("negative_slope")
    return c.pointwise("relu_fwd", c.tensor("self"), relu_lower_clip_slope=float(slope))


def _prelu(c: Call) -> Tensor:
    _floating(c)
    x, w = c.tensor("self"), c.tensor("weight")
    dims, slopes = c.type("self").dims, c.type("weight").graph_dims
    if len(slopes) == 1 and slopes[0] != 1:  # one per channel
        w = c.shaped(w, (1, slopes[0], *(1,) * (len(dims) - 2)))
    positive = c.graph.pointwise(x, 0.0, mode="cmp_gt", compute_data_type=c.compute)
    return c.pointwise("binary_select", x, c.pointwise("mul", x, w), positive)


def _elu(c: Call) -> Tensor:
    _floating(c)
    x, alpha, scale = c.tensor("self"), c.number("alpha"), c.number("scale")
    inner = c.number("input_scale")
    if inner != 1:
        # elu(x) = x above 0 and alpha · (e^(inner · x) - 1) elsewhere.
        low = c.pointwise("elu_fwd", _times(c, x, inner), elu_alpha=float(alpha))
        positive = c.graph.pointwise(x, 0.0, mode="cmp_gt", compute_data_type=c.compute)
        return _times(c, c.pointwise("binary_select", x, low, positive), scale)
    return _times(c, c.pointwise("elu_fwd", x, elu_alpha=float(alpha)), scale)


def _celu(c: Call) -> Tensor:
    _floating(c)
    alpha, x = c.number("alpha"), c.tensor("self")
    low = c.pointwise("elu_fwd", c.pointwise("div", x, alpha), elu_alpha=float(alpha))
    positive = c.graph.pointwise(x, 0.0, mode="cmp_gt", compute_data_type=c.compute)
    return c.pointwise("binary_select", x, low, positive)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _selu(c: Call) -> Tensor:
    _floating(c)
    return _times(c, c.pointwise("elu_fwd", c.tensor("self"), elu_alpha=_SELU_ALPHA), _SELU_SCALE)


def _softplus(c: Call) -> Tensor:
    _floating(c)
    x, beta, threshold = c.tensor("self"), c.number("beta"), c.number("threshold")
    y = c.pointwise("softplus_fwd", x, softplus_beta=float(beta))
    # Beyond the threshold torch returns x itself, from which the function differs by less than
    # e^-threshold.
    if threshold >= 20:
        return y
    large = c.graph.pointwise(
        _times(c, x, beta), float(threshold), mode="cmp_gt", compute_data_type=c.compute
    )
    return c.pointwise("binary_select", x, y, large)


def _gelu(c: Call) -> Tensor:
    _floating(c)
    c.must_be("approximate", "none", "tanh")
    mode = "gelu_fwd" if c.constant("approximate") == "none" else "gelu_approx_tanh_fwd"
    return c.pointwise(mode, c.tensor("self"))


def _hardsigmoid(c: Call) -> Tensor:
    _floating(c)
    return c.pointwise("div", _clipped(c, c.tensor("self")), 6.0)


def _hardswish(c: Call) -> Tensor:
    _floating(c)
    x = c.tensor("self")
    return c.pointwise("div", c.pointwise("mul", x, _clipped(c, x)), 6.0)


def _clipped(c: Call, x: Tensor) -> Tensor:
    return c.pointwise("relu_fwd", c.pointwise("add", x, 3.0), relu_upper_clip=6.0)


def _mish(c: Call) -> Tensor:
    _floating(c)
    x = c.tensor("self")
    return c.pointwise("mul", x, c.pointwise("tanh_fwd", c.pointwise("softplus_fwd", x)))


def _log_sigmoid(c: Call) -> Tensor:
    _floating(c)
    return c.pointwise("neg", c.pointwise("softplus_fwd", c.pointwise("neg", c.tensor("self"))))


def _softsign(c: Call) -> Tensor:
    _floating(c)
    x = c.tensor("self")
    return c.pointwise("div", x, c.pointwise("add", c.pointwise("abs", x), 1.0))


def _log_of(base: float) -> Build:
    def build(c: Call) -> Tensor:
        _floating(c)
        return c.pointwise("mul", c.pointwise("log", c.tensor("self")), 1 / math.log(base))

    return build


def _square(c: Call) -> Tensor:
    x = c.tensor("self")
    return c.pointwise("mul", x, x)


def _power(c: Call) -> Tensor:
    x, exponent = c.tensor("self"), c.constant("exponent")
    if exponent in (1, 2, 3):
        return {1: lambda: x, 2: lambda: _square(c), 3: lambda: c.pointwise("mul", _square(c), x)}[
            int(exponent)
        ]()
    _floating(c)
    if exponent == 0.5:
        return c.pointwise("sqrt", x)
    if exponent == -0.5:
        return c.pointwise("rsqrt", x)
    return c.pointwise("pow", x, c.number("exponent"))


def _powers(c: Call) -> Tensor:
    _floating(c)
    return c.pointwise("pow", c.operand("self"), c.operand("exponent"))


def _sign(c: Call) -> Tensor:
    kind, x = c.compute, c.tensor("self")
    if c.result().data_type.is_float:
        # NaN stays NaN: x - x is 0 for numbers.
        raise c.refuse("self", "floats", "integers")
    above = c.graph.pointwise(x, 0, mode="cmp_gt", compute_data_type=kind).set_data_type(kind)
    below = c.graph.pointwise(x, 0, mode="cmp_lt", compute_data_type=kind).set_data_type(kind)
    return c.pointwise("sub", above, below)


def _multiply_add(mode: str) -> Build:
    """Return ``self + value · (tensor1 (mode) tensor2)``."""

    def build(c: Call) -> Tensor:
        if mode == "div":
            _floating(c)
        product = c.pointwise(mode, c.tensor("tensor1"), c.tensor("tensor2"))
        return c.pointwise("add", c.tensor("self"), _times(c, product, c.number("value")))

    return build


def _lerp(c: Call) -> Tensor:
    _floating(c)
    start = c.tensor("self")
    far = c.pointwise("sub", c.tensor("end"), start)
    return c.pointwise("add", start, c.pointwise("mul", far, c.operand("weight")))


# ---------------------------------------------------------------------------- conversions


def _convert(c: Call) -> Tensor:
    before, after = c.type("self").data_type, c.result().data_type
    if before is after:
        return c.tensor("self")
    if before.is_integer and after.is_integer and not after.holds(before):
        wanted = f"a type that holds all values of {before.json}: torch keeps the low bits"
        raise c.refuse("dtype", after.json, wanted)
    return c.graph.cast(c.tensor("self"), after)


def _to(c: Call) -> Tensor:
    for name in ("layout", "device", "pin_memory"):
        if c.takes(name) and c.has(name) and c.constant(name) not in (0, False):
            raise c.refuse(name, c.constant(name), "none")
    return _convert(c)


def _same(c: Call) -> Tensor:
    return c.tensor("self")


def _dropout(c: Call) -> Tensor:
    c.must_be("train", False)
    return c.tensor("input")


def _rows(family: str, operands: str, builds: dict[str, Build]) -> dict[str, AtenOp]:
    names = tuple(operands.split())
    return {f"aten.{name}": AtenOp(names, build, family) for name, build in builds.items()}


_P = Family.POINTWISE

OPS: dict[str, AtenOp] = {
    **_rows(
        _P,
        "self",
        {
            "abs": _unary("abs", real=False),
            "neg": _unary("neg", real=False),
            "relu": _unary("relu_fwd", real=False),
            "ceil": _unary("ceil", real=False),
            "floor": _unary("floor", real=False),
            "exp": _unary("exp"),
            "log": _unary("log"),
            "sqrt": _unary("sqrt"),
            "rsqrt": _unary("rsqrt"),
            "erf": _unary("erf"),
            "sin": _unary("sin"),
            "cos": _unary("cos"),
            "tan": _unary("tan"),
            "tanh": _unary("tanh_fwd"),
            "sigmoid": _unary("sigmoid_fwd"),
            "reciprocal": _unary("reciprocal"),
            "silu": _unary("swish_fwd"),
            "relu6": _relu6,
            "hardsigmoid": _hardsigmoid,
            "hardswish": _hardswish,
            "mish": _mish,
            "log_sigmoid": _log_sigmoid,
            "selu": _selu,
            "log2": _log_of(2),
            "log10": _log_of(10),
            "square": _square,
            "sign": _sign,
            "sgn": _sign,
            "isnan": _not_a_number,
            "logical_not": _logical("logical_not"),
        },
    ),
    **_rows(
        _P,
        "self other",
        {
            "mul.Tensor": _binary("mul"),
            "mul.Scalar": _binary("mul"),
            "div.Tensor": _divide,
            "div.Scalar": _divide,
            "maximum": _binary("max_op"),
            "minimum": _binary("min_op"),
            "fmod.Tensor": _binary("mod"),
            "fmod.Scalar": _binary("mod"),
            **{
                f"{name}.{kind}": _compare(f"cmp_{mode}")
                for name, mode in (
                    *(("eq", "eq"), ("ne", "neq"), ("lt", "lt")),
                    *(("le", "le"), ("gt", "gt"), ("ge", "ge")),
                )
                for kind in ("Tensor", "Scalar")
            },
            "logical_and": _logical("logical_and"),
            "logical_or": _logical("logical_or"),
            "logical_xor": _logical("xor"),
        },
    ),
    **_rows(
        _P,
        "self other alpha",
        {
            "add.Tensor": _scaled("add"),
            "add.Scalar": _scaled("add"),
            "sub.Tensor": _scaled("sub"),
            "sub.Scalar": _scaled("sub"),
            "rsub.Scalar": _rsub,
        },
    ),
    **_rows(_P, "self other rounding_mode", dict.fromkeys(("div.Tensor_mode",), _divide_rounded)),
    **_rows(_P, "self min max", {"clamp": _clamp, "clamp.Tensor": _clamp}),
    **_rows(_P, "self min_val max_val", {"hardtanh": _hardtanh}),
    **_rows(_P, "self negative_slope", {"leaky_relu": _leaky_relu}),
    **_rows(_P, "self weight", {"prelu": _prelu}),
    **_rows(_P, "self alpha scale input_scale", {"elu": _elu}),
    **_rows(_P, "self alpha", {"celu": _celu}),
    **_rows(_P, "self beta threshold", {"softplus": _softplus}),
    **_rows(_P, "self approximate", {"gelu": _gelu}),
    **_rows(_P, "self exponent", {"pow.Tensor_Scalar": _power, "pow.Tensor_Tensor": _powers}),
    **_rows(
        _P,
        "condition self other",
        dict.fromkeys(("where.self", "where.ScalarOther", "where.ScalarSelf"), _where),
    ),
    **_rows(_P, "self mask value", {"masked_fill.Scalar": _masked, "masked_fill.Tensor": _masked}),
    **_rows(
        _P,
        "self tensor1 tensor2 value",
        {"addcmul": _multiply_add("mul"), "addcdiv": _multiply_add("div")},
    ),
    **_rows(_P, "self end weight", {"lerp.Tensor": _lerp, "lerp.Scalar": _lerp}),
    **_rows(_P, "self dtype non_blocking copy memory_format", {"to.dtype": _to}),
    **_rows(
        _P,
        "self dtype layout device pin_memory non_blocking copy memory_format",
        {"to.dtype_layout": _to},
    ),
    **_rows(
        _P, "self dtype layout device pin_memory non_blocking memory_format", {"_to_copy": _to}
    ),
    **_rows(Family.MOVEMENT, "self", {"alias": _same, "detach": _same}),
    **_rows(Family.MOVEMENT, "self memory_format", {"clone": _same, "contiguous": _same}),
    **_rows(Family.MOVEMENT, "input p train", {"dropout": _dropout}),
    "prims.convert_element_type": AtenOp(("self", "dtype"), _convert, _P),
}
