# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of vector arithmetic: mnemonic -> types of result and sources, function.

Mnemonics carry no encoding suffix.  Types are those of `formats.DTYPES`; ``b16`` and the like
count as unsigned.  Instructions that do more than map lanes are in other modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from .floats import (
    div_fixup,
    f16_toward_zero,
    fma,
    fmax,
    fmin,
    fract,
    med3,
    saturate,
    transcendental,
    trig_preop,
)
from .formats import DTYPES, Array, bf16_bits, canonical, flush, from_bf16
from .integers import (
    bit_field,
    byte_permute,
    count_ones,
    first_one,
    funnel,
    leading_bits,
    mul_high,
    reverse_bits,
    sext24,
    zext24,
)

__all__ = ["KEEPS_HIGH", "OPS", "SATURATING", "Op", "fp8_types"]

F16, F32, F64 = np.float16, np.float32, np.float64
U16, U32, U64, I32, I64 = np.uint16, np.uint32, np.uint64, np.int32, np.int64


class Op(NamedTuple):
    """One row: result, sources, function of arrays."""

    result: str
    sources: tuple[str, ...]
    fn: Callable[..., Array]


OPS: dict[str, Op] = {}


def _same(names: str, kinds: str, count: int, fn: Callable[..., Array]) -> None:
    """Rows ``v_<name>_<kind>`` whose operands all have that type."""
    for name in names.split():
        for kind in kinds.split():
            OPS[f"v_{name}_{kind}"] = Op(canonical(kind), (canonical(kind),) * count, fn)


def _row(name: str, result: str, sources: str, fn: Callable[..., Array]) -> None:
    OPS["v_" + name] = Op(result, tuple(sources.split()), fn)


def _shift(fn: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """The count comes first, and only its low bits count."""
    return lambda a, b: fn(b, (a & a.dtype.type(8 * b.dtype.itemsize - 1)).astype(b.dtype))


def _low5(x: Array) -> Array:
    return x & U32(31)


def _bit_mask(a: Array, b: Array) -> Array:
    return ((U32(1) << _low5(a)) - U32(1)) << _low5(b)


def _mad_flushed(a: Array, b: Array, c: Array) -> Array:
    """v_mad_f32: rounded twice, denormals are always 0."""
    a, b, c = (flush(np.ascontiguousarray(x)) for x in (a, b, c))
    return flush(flush(a * b) + c)


def _legacy(a: Array, b: Array) -> Array:
    return np.where((a == 0) | (b == 0), F32(0), a * b)


def _difference(a: Array, b: Array) -> Array:
    return np.where(a > b, a - b, b - a)


def _sad(width: int) -> Callable[[Array, Array, Array], Array]:
    count, field = 32 // width, U32((1 << width) - 1)

    def compute(a: Array, b: Array, c: Array) -> Array:
        total = c
        for k in range(count):
            shift = U32(width * k)
            total = total + _difference((a >> shift) & field, (b >> shift) & field)
        return total

    return compute


def _reduced(fn: Callable[[Array], Array], beyond: float) -> Callable[[Array], Array]:
    """sin and cos of turns; outside of 256 turns the hardware gives up."""

    def compute(x: Array) -> Array:
        return np.where(
            np.abs(x) > 256,
            np.where(np.isinf(x), np.nan, beyond),
            fn((x - np.rint(x)) * (2 * np.pi)),
        )

    return compute


# ---- bits ----------------------------------------------------------------------------------------

_same("mov", "b32 b64", 1, lambda a: a)
_same("accvgpr_read accvgpr_write accvgpr_mov", "b32", 1, lambda a: a)
_same("not", "b32", 1, np.invert)
_same("and", "b32", 2, np.bitwise_and)
_same("or", "b32", 2, np.bitwise_or)
_same("xor", "b32", 2, np.bitwise_xor)
_same("xnor", "b32", 2, lambda a, b: ~(a ^ b))
_same("or3", "b32", 3, lambda a, b, c: a | b | c)
_same("and_or", "b32", 3, lambda a, b, c: (a & b) | c)
_same("bfi", "b32", 3, lambda a, b, c: (a & b) | (~a & c))
_same("bfm", "b32", 2, _bit_mask)
_same("bfrev", "b32", 1, reverse_bits)
_same("perm", "b32", 3, byte_permute)
_same("alignbit", "b32", 3, lambda a, b, c: funnel(a, b, _low5(c)))
_same("alignbyte", "b32", 3, lambda a, b, c: funnel(a, b, U32(8) * (c & U32(3))))
_same("bfe", "u32", 3, lambda a, b, c: bit_field(a, _low5(b), _low5(c)))
_row("bfe_i32", "i32", "i32 u32 u32", lambda a, b, c: bit_field(a, _low5(b), _low5(c)))
_row("ffbh_u32", "u32", "u32", leading_bits)
_row("ffbh_i32", "u32", "i32", leading_bits)
_row("ffbl_b32", "u32", "u32", first_one)
_row("bcnt_u32_b32", "u32", "u32 u32", lambda a, b: count_ones(a) + b)
for _kind in ("b16", "b32", "b64"):
    _count = "u16" if _kind == "b16" else "u32"
    _row(
        f"lshlrev_{_kind}", canonical(_kind), f"{_count} {canonical(_kind)}", _shift(np.left_shift)
    )
    _row(
        f"lshrrev_{_kind}", canonical(_kind), f"{_count} {canonical(_kind)}", _shift(np.right_shift)
    )
    _row(f"ashrrev_i{_kind[1:]}", f"i{_kind[1:]}", f"{_count} i{_kind[1:]}", _shift(np.right_shift))
_same("lshl_add", "u32", 3, lambda a, b, c: (a << _low5(b)) + c)
_same("add_lshl", "u32", 3, lambda a, b, c: (a + b) << _low5(c))
_same("lshl_or", "b32", 3, lambda a, b, c: (a << _low5(b)) | c)
_row("lshl_add_u64", "u64", "u64 u32 u64", lambda a, b, c: (a << (b & U32(7)).astype(U64)) + c)

# ---- integers ------------------------------------------------------------------------------------

_same("add", "u16 u32 i16 i32", 2, np.add)
_same("sub", "u16 u32 i16 i32", 2, np.subtract)
_same("subrev", "u16 u32", 2, lambda a, b: b - a)
_same("mul_lo", "u16 u32", 2, np.multiply)
_same("mul_hi", "u32 i32", 2, mul_high)
_same("mad mad_legacy", "u16 i16", 3, lambda a, b, c: a * b + c)
_same("add3", "u32", 3, lambda a, b, c: a + b + c)
_same("xad", "u32", 3, lambda a, b, c: (a ^ b) + c)
_same("sad", "u32", 3, lambda a, b, c: _difference(a, b) + c)
_same("sad", "u8", 3, _sad(8))
_same("sad", "u16", 3, _sad(16))
for _name in ("v_sad_u8", "v_sad_u16"):
    OPS[_name] = Op("u32", ("u32",) * 3, OPS[_name].fn)
_same("min", "u16 i16 u32 i32", 2, np.minimum)
_same("max", "u16 i16 u32 i32", 2, np.maximum)
_same("min3", "u16 i16 u32 i32", 3, lambda a, b, c: np.minimum(np.minimum(a, b), c))
_same("max3", "u16 i16 u32 i32", 3, lambda a, b, c: np.maximum(np.maximum(a, b), c))
_same(
    "med3",
    "u16 i16 u32 i32",
    3,
    lambda a, b, c: np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c)),
)
_row("mul_u32_u24", "u32", "u32 u32", lambda a, b: zext24(a) * zext24(b))
_row("mul_i32_i24", "i32", "u32 u32", lambda a, b: sext24(a) * sext24(b))
_row("mul_hi_u32_u24", "u32", "u32 u32", lambda a, b: mul_high(zext24(a), zext24(b)))
_row("mul_hi_i32_i24", "i32", "u32 u32", lambda a, b: mul_high(sext24(a), sext24(b)))
_row("mad_u32_u24", "u32", "u32 u32 u32", lambda a, b, c: zext24(a) * zext24(b) + c)
_row("mad_i32_i24", "i32", "u32 u32 i32", lambda a, b, c: sext24(a) * sext24(b) + c)
_row("mad_u32_u16", "u32", "u16 u16 u32", lambda a, b, c: a.astype(U32) * b + c)
_row("mad_i32_i16", "i32", "i16 i16 i32", lambda a, b, c: a.astype(I32) * b + c)


def _pack_u8(a: Array) -> Array:
    low, high = (
        np.clip(x.astype(U16).view(np.int16), 0, 255).astype(U32) for x in (a, a >> U32(16))
    )
    return low | (high << U32(8))


_row("sat_pk_u8_i16", "u32", "u32", _pack_u8)


def _saturating(name: str, kind: str) -> Callable[[Array, Array], Array]:
    """Integer sums with the clamp modifier."""
    info, sign = np.iinfo(DTYPES[kind]), 1 if name == "add" else -1

    def compute(a: Array, b: Array) -> Array:
        if name == "subrev":
            a, b = b, a
        total = a.astype(I64) + sign * b.astype(I64)
        return np.clip(total, int(info.min), int(info.max)).astype(DTYPES[kind])

    return compute


SATURATING = {
    f"v_{n}_{t}": _saturating(n, t)
    for n in ("add", "sub", "subrev")
    for t in ("u16", "i16", "u32", "i32")
}

# ---- floats --------------------------------------------------------------------------------------

_same("add", "f16 f32 f64", 2, np.add)
_same("sub", "f16 f32", 2, np.subtract)
_same("subrev", "f16 f32", 2, lambda a, b: b - a)
_same("mul", "f16 f32 f64", 2, np.multiply)
_same("mul_legacy", "f32", 2, _legacy)
_same("min", "f16 f32 f64", 2, fmin)
_same("max", "f16 f32 f64", 2, fmax)
_same("min3", "f16 f32", 3, lambda a, b, c: fmin(fmin(a, b), c))
_same("max3", "f16 f32", 3, lambda a, b, c: fmax(fmax(a, b), c))
_same("med3", "f16 f32", 3, med3)
_same("minimum3", "f16 f32", 3, lambda a, b, c: np.minimum(np.minimum(a, b), c))
_same("maximum3", "f16 f32", 3, lambda a, b, c: np.maximum(np.maximum(a, b), c))
_same("fma", "f16 f32 f64", 3, fma)
_same("fmaak fmamk", "f32", 3, fma)  # the text's order is the formula's
_same("mad madak madmk", "f16", 3, lambda a, b, c: a * b + c)
_same("mad madak madmk", "f32", 3, _mad_flushed)
_same("mad_legacy", "f32", 3, lambda a, b, c: _legacy(a, b) + c)
_same("div_fixup", "f16 f32 f64", 3, div_fixup)

_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "rndne": np.rint,
    "trunc": np.trunc,
    "floor": np.floor,
    "ceil": np.ceil,
    "fract": fract,
}
for _name, _one in _ROUNDINGS.items():
    _same(_name, "f16 f32 f64", 1, _one)
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp2,
    "log": np.log2,
    "rcp": lambda a: 1 / a,
    "rcp_iflag": lambda a: 1 / a,
    "rsq": lambda a: 1 / np.sqrt(a),
    "sqrt": np.sqrt,
    "sin": _reduced(np.sin, 0.0),
    "cos": _reduced(np.cos, 1.0),
}
_ONLY = dict.fromkeys(("exp", "log", "sin", "cos"), "f16 f32") | {"rcp_iflag": "f32"}
for _name, _one in _FUNCTIONS.items():
    _same(_name, _ONLY.get(_name, "f16 f32 f64"), 1, transcendental(_one))
_row(
    "prng_b32",
    "u32",
    "u32",
    lambda a: (a << U32(1)) ^ np.where(a >> U32(31) == 1, U32(197), U32(0)),
)


def _ldexp(a: Array, b: Array) -> Array:
    return np.ldexp(a.astype(F64), np.clip(b.astype(I32), -3000, 3000)).astype(a.dtype)


def _frexp_exp(dtype: Any) -> Callable[[Array], Array]:
    return lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(dtype)


_row("trig_preop_f64", "f64", "f64 u32", trig_preop)
_row("ldexp_f16", "f16", "f16 i16", _ldexp)
_row("ldexp_f32", "f32", "f32 i32", _ldexp)
_row("ldexp_f64", "f64", "f64 i32", _ldexp)
_same("frexp_mant", "f16 f32 f64", 1, lambda a: np.where(np.isfinite(a), np.frexp(a)[0], a))
_row("frexp_exp_i16_f16", "i16", "f16", _frexp_exp(np.int16))
_row("frexp_exp_i32_f32", "i32", "f32", _frexp_exp(I32))
_row("frexp_exp_i32_f64", "i32", "f64", _frexp_exp(I32))

# ---- conversions ---------------------------------------------------------------------------------


def _byte(shift: int) -> Callable[[Array], Array]:
    return lambda a: ((a >> U32(shift)) & U32(255)).astype(F32)


for _pair in (
    "f32_f16",
    "f16_f32",
    "f64_f32",
    "f32_f64",
    "f32_i32",
    "f32_u32",
    "f64_i32",
    "f64_u32",
    "f16_u16",
    "f16_i16",
    "i32_f32",
    "u32_f32",
    "u16_f16",
    "i16_f16",
    "i32_f64",
    "u32_f64",
):
    _to, _of = _pair.split("_")
    _dtype = DTYPES[_to]
    _row(
        "cvt_" + _pair,
        _to,
        _of,
        saturate(_dtype) if _to[0] != "f" else lambda a, to=_dtype: a.astype(to),
    )
_row("cvt_rpi_i32_f32", "i32", "f32", lambda a: saturate(I32)(np.floor(a.astype(F64) + 0.5)))
_row("cvt_flr_i32_f32", "i32", "f32", lambda a: saturate(I32)(np.floor(a)))
for _k in range(4):
    _row(
        f"cvt_f32_ubyte{_k}",
        "f32",
        "u32",
        _byte(8 * _k),
    )


def _pack(low: Array, high: Array) -> Array:
    """Two 16-bit arrays (any type) as one word."""
    return low.view(U16).astype(U32) | (high.view(U16).astype(U32) << U32(16))


def _both(convert: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: _pack(convert(a), convert(b))


def _clip(dtype: Any) -> Callable[[Array], Array]:
    info = np.iinfo(dtype)
    return lambda a: np.clip(
        a, a.dtype.type(max(info.min, np.iinfo(a.dtype).min)), a.dtype.type(info.max)
    ).astype(dtype)


def _normalised(dtype: Any, scale: float) -> Callable[[Array], Array]:
    low = -1.0 if scale == 32767.0 else 0.0
    return lambda a: np.rint(np.nan_to_num(np.clip(a.astype(F64), low, 1.0)) * scale).astype(dtype)


_row("cvt_f32_bf16", "f32", "u16", from_bf16)
_row("cvt_pk_bf16_f32", "u32", "f32 f32", _both(bf16_bits))
_row("cvt_pk_f16_f32", "u32", "f32 f32", _both(lambda a: a.astype(F16)))
_row("cvt_pkrtz_f16_f32", "u32", "f32 f32", _both(f16_toward_zero))
_row("cvt_pk_u16_u32", "u32", "u32 u32", _both(_clip(U16)))
_row("cvt_pk_i16_i32", "u32", "i32 i32", _both(_clip(np.int16)))
_row("cvt_pknorm_i16_f32", "u32", "f32 f32", _both(_normalised(np.int16, 32767.0)))
_row("cvt_pknorm_u16_f32", "u32", "f32 f32", _both(_normalised(U16, 65535.0)))
_row("pack_b32_f16", "u32", "f16 f16", _pack)


def _pack_byte(a: Array, b: Array, c: Array) -> Array:
    """v_cvt_pk_u8_f32: a byte of `c`, which `b` names, is replaced."""
    byte = saturate(np.uint8)(np.rint(a)).astype(U32)
    shift = (b & U32(3)) * U32(8)
    return (c & ~(U32(255) << shift)) | (byte << shift)


_row("cvt_pk_u8_f32", "u32", "f32 u32 u32", _pack_byte)

# 16-bit results that leave the rest of the register alone on gfx9; all others clear it.
KEEPS_HIGH = {
    f"v_{n}_{t}"
    for n in ["min3", "max3", "med3", "mad", "fma", "div_fixup", "minimum3", "maximum3"]
    for t in ("f16", "u16", "i16")
} | {"v_bitop3_b16"}


def fp8_types(target: str) -> dict[str, Any] | None:
    """Return the NumPy types of ``fp8`` and ``bf8`` on a target; None where it has none."""
    kinds = {
        "gfx942": (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz),
        "gfx950": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    }.get(target)
    return None if kinds is None else {"fp8": kinds[0], "bf8": kinds[1]}
