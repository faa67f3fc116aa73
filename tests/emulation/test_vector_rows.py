# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every row of vector arithmetic, against exact integers, exact fractions and ``math``."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from gfx9_kernels import execute, get, op, put, single, v
from gfx9_values import WIDTHS, apply, ints, nearest, same, values
from hipdnn_iree.emulation.alu import OPS
from hipdnn_iree.emulation.encodings import ARCHES, forms

# A row: the types of its sources, and its result as Python computes it: an integer, of which the
# low bits count; a fraction, which is to be rounded; or a float.

# ---- integers ------------------------------------------------------------------------------------


def _signed(x, bits):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def _perm(a, b, c):
    pair = list(b.to_bytes(4, "little") + a.to_bytes(4, "little"))
    out = []
    for code in c.to_bytes(4, "little"):
        if code < 8:
            out.append(pair[code])
        elif code < 12:
            out.append(255 if pair[2 * (code - 8) + 1] >> 7 else 0)
        else:
            out.append(0 if code == 12 else 255)
    return int.from_bytes(bytes(out), "little")


def _field(x, first, width, signed):
    first, width = first & 31, width & 31
    value = (x >> first) & ((1 << min(width, 32 - first)) - 1) if width else 0
    return _signed(value, min(width, 32 - first)) if signed and width else value


INTEGERS = {
    "v_add_u32": ("u32 u32", lambda a, b: a + b),
    "v_sub_u32": ("u32 u32", lambda a, b: a - b),
    "v_subrev_u32": ("u32 u32", lambda a, b: b - a),
    "v_add_u16": ("u16 u16", lambda a, b: (a + b) % 65536),
    "v_sub_u16": ("u16 u16", lambda a, b: (a - b) % 65536),
    "v_mul_lo_u16": ("u16 u16", lambda a, b: a * b % 65536),
    "v_mul_lo_u32": ("u32 u32", lambda a, b: a * b),
    "v_mul_hi_u32": ("u32 u32", lambda a, b: a * b >> 32),
    "v_mul_hi_i32": ("i32 i32", lambda a, b: a * b >> 32),
    "v_mul_u32_u24": ("u32 u32", lambda a, b: (a % 2**24) * (b % 2**24)),
    "v_mul_i32_i24": ("u32 u32", lambda a, b: _signed(a, 24) * _signed(b, 24)),
    "v_mul_hi_u32_u24": ("u32 u32", lambda a, b: (a % 2**24) * (b % 2**24) >> 32),
    "v_mul_hi_i32_i24": ("u32 u32", lambda a, b: _signed(a, 24) * _signed(b, 24) >> 32),
    "v_mad_u32_u24": ("u32 u32 u32", lambda a, b, c: (a % 2**24) * (b % 2**24) + c),
    "v_mad_i32_i24": ("u32 u32 i32", lambda a, b, c: _signed(a, 24) * _signed(b, 24) + c),
    "v_mad_u32_u16": ("u16 u16 u32", lambda a, b, c: a * b + c),
    "v_mad_i32_i16": ("i16 i16 i32", lambda a, b, c: a * b + c),
    "v_mad_legacy_u16": ("u16 u16 u16", lambda a, b, c: (a * b + c) % 65536),
    "v_add3_u32": ("u32 u32 u32", lambda a, b, c: a + b + c),
    "v_xad_u32": ("u32 u32 u32", lambda a, b, c: (a ^ b) + c),
    "v_lshl_add_u32": ("u32 u32 u32", lambda a, b, c: (a << (b & 31)) + c),
    "v_add_lshl_u32": ("u32 u32 u32", lambda a, b, c: (a + b) << (c & 31)),
    "v_lshl_or_b32": ("u32 u32 u32", lambda a, b, c: (a << (b & 31)) | c),
    "v_and_or_b32": ("u32 u32 u32", lambda a, b, c: (a & b) | c),
    "v_or3_b32": ("u32 u32 u32", lambda a, b, c: a | b | c),
    "v_bfi_b32": ("u32 u32 u32", lambda a, b, c: (a & b) | (~a & c)),
    "v_bfm_b32": ("u32 u32", lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
    "v_bfe_u32": ("u32 u32 u32", lambda a, b, c: _field(a, b, c, False)),
    "v_bfe_i32": ("u32 u32 u32", lambda a, b, c: _field(a, b, c, True)),
    "v_alignbit_b32": ("u32 u32 u32", lambda a, b, c: (a << 32 | b) >> (c & 31)),
    "v_alignbyte_b32": ("u32 u32 u32", lambda a, b, c: (a << 32 | b) >> 8 * (c & 3)),
    "v_perm_b32": ("u32 u32 u32", _perm),
    "v_not_b32": ("u32", lambda a: ~a),
    "v_and_b32": ("u32 u32", lambda a, b: a & b),
    "v_or_b32": ("u32 u32", lambda a, b: a | b),
    "v_xor_b32": ("u32 u32", lambda a, b: a ^ b),
    "v_xnor_b32": ("u32 u32", lambda a, b: ~(a ^ b)),
    "v_bfrev_b32": ("u32", lambda a: int(f"{a:032b}"[::-1], 2)),
    "v_ffbh_u32": ("u32", lambda a: 32 - a.bit_length() if a else -1),
    "v_ffbl_b32": ("u32", lambda a: (a & -a).bit_length() - 1 if a else -1),
    "v_ffbh_i32": (
        "i32",
        lambda a: -1 if a in (0, -1) else 32 - (a if a > 0 else ~a).bit_length(),
    ),
    "v_bcnt_u32_b32": ("u32 u32", lambda a, b: a.bit_count() + b),
    "v_lshlrev_b32": ("u32 u32", lambda a, b: b << (a & 31)),
    "v_lshrrev_b32": ("u32 u32", lambda a, b: b >> (a & 31)),
    "v_ashrrev_i32": ("u32 i32", lambda a, b: b >> (a & 31)),
    "v_lshlrev_b16": ("u16 u16", lambda a, b: (b << (a & 15)) % 65536),
    "v_lshrrev_b16": ("u16 u16", lambda a, b: b >> (a & 15)),
    "v_ashrrev_i16": ("u16 i16", lambda a, b: (b >> (a & 15)) % 65536),
    "v_lshlrev_b64": ("u32 u64", lambda a, b: b << (a & 63)),
    "v_lshrrev_b64": ("u32 u64", lambda a, b: b >> (a & 63)),
    "v_ashrrev_i64": ("u32 i64", lambda a, b: b >> (a & 63)),
    "v_lshl_add_u64": ("u64 u32 u64", lambda a, b, c: (a << (b & 7)) + c),
    "v_min_u32": ("u32 u32", min),
    "v_max_u32": ("u32 u32", max),
    "v_min_i32": ("i32 i32", min),
    "v_max_i32": ("i32 i32", max),
    "v_min_i16": ("i16 i16", lambda a, b: min(a, b) % 65536),
    "v_max_u16": ("u16 u16", max),
    "v_min3_i32": ("i32 i32 i32", min),
    "v_max3_u32": ("u32 u32 u32", max),
    "v_med3_i32": ("i32 i32 i32", lambda *x: sorted(x)[1]),
    "v_med3_u32": ("u32 u32 u32", lambda *x: sorted(x)[1]),
    "v_sad_u32": ("u32 u32 u32", lambda a, b, c: abs(a - b) + c),
    "v_sad_u8": (
        "u32 u32 u32",
        lambda a, b, c: sum(abs((a >> k & 255) - (b >> k & 255)) for k in (0, 8, 16, 24)) + c,
    ),
    "v_cvt_pk_u16_u32": ("u32 u32", lambda a, b: min(a, 65535) | min(b, 65535) << 16),
    "v_cvt_pk_i16_i32": (
        "i32 i32",
        lambda a, b: max(-32768, min(a, 32767)) % 65536 | max(-32768, min(b, 32767)) % 65536 << 16,
    ),
}


def _pick(fn, kind, count):
    return f"{kind} " * count, lambda *x: fn(x)


for _kind in ("u16", "i16", "u32", "i32"):
    INTEGERS |= {
        f"v_add_{_kind}": (f"{_kind} {_kind}", lambda a, b: a + b),
        f"v_sub_{_kind}": (f"{_kind} {_kind}", lambda a, b: a - b),
        f"v_min_{_kind}": _pick(min, _kind, 2),
        f"v_max_{_kind}": _pick(max, _kind, 2),
        f"v_min3_{_kind}": _pick(min, _kind, 3),
        f"v_max3_{_kind}": _pick(max, _kind, 3),
        f"v_med3_{_kind}": _pick(lambda x: sorted(x)[1], _kind, 3),
    }
for _name in ("mad", "mad_legacy"):
    for _kind in ("u16", "i16"):
        INTEGERS[f"v_{_name}_{_kind}"] = (f"{_kind} " * 3, lambda a, b, c: a * b + c)
INTEGERS |= {
    "v_mov_b32": ("u32", lambda a: a),
    "v_mov_b64": ("u64", lambda a: a),
    "v_accvgpr_read_b32": ("u32", lambda a: a),
    "v_accvgpr_write_b32": ("u32", lambda a: a),
    "v_accvgpr_mov_b32": ("u32", lambda a: a),
    "v_subrev_u16": ("u16 u16", lambda a, b: b - a),
    "v_sad_u16": (
        "u32 u32 u32",
        lambda a, b, c: sum(abs((a >> k & 0xFFFF) - (b >> k & 0xFFFF)) for k in (0, 16)) + c,
    ),
    "v_sat_pk_u8_i16": (
        "u32",
        lambda a: sum(max(0, min(_signed(a >> 16 * k, 16), 255)) << 8 * k for k in (0, 1)),
    ),
    "v_prng_b32": ("u32", lambda a: a << 1 ^ (197 if a >> 31 else 0)),
    "v_pack_b32_f16": ("u16 u16", lambda a, b: a | b << 16),
}

# ---- dot products, which are no rows but the same to test ----

DOTS = {
    "v_dot4_i32_i8": (
        "u32 u32 i32",
        lambda a, b, c: sum(_signed(a >> k, 8) * _signed(b >> k, 8) for k in (0, 8, 16, 24)) + c,
    ),
    "v_dot4_u32_u8": (
        "u32 u32 u32",
        lambda a, b, c: sum((a >> k & 255) * (b >> k & 255) for k in (0, 8, 16, 24)) + c,
    ),
    "v_dot2_i32_i16": (
        "u32 u32 i32",
        lambda a, b, c: sum(_signed(a >> k, 16) * _signed(b >> k, 16) for k in (0, 16)) + c,
    ),
    "v_dot8_i32_i4": (
        "u32 u32 i32",
        lambda a, b, c: sum(_signed(a >> k, 4) * _signed(b >> k, 4) for k in range(0, 32, 4)) + c,
    ),
}


def test_dot_products_that_accumulate_in_place():
    m = single("gfx908")
    x, y, z = (values("u32", k) for k in (1, 2, 3))
    for register, given in ((1, x), (2, y), (3, z)):
        put(m, register, given)
    execute(m, op("v_dot4c_i32_i8", v(3), v(1), v(2), encoding="vop2"))
    fn = DOTS["v_dot4_i32_i8"][1]
    triples = zip(ints(x, "u32"), ints(y, "u32"), ints(z, "i32"), strict=True)
    assert ints(get(m, 3, np.uint32), "u32") == [fn(*t) % 2**32 for t in triples]


# ---- floats --------------------------------------------------------------------------------------


def _rounded(value, kind):
    exact = isinstance(value, Fraction) or math.isfinite(value)
    return nearest(Fraction(value), WIDTHS[kind]) if exact and value else value


def _exact(fn):
    """A fraction where all is finite and the result no zero, else what IEEE's rules say."""

    def compute(*x):
        if all(map(math.isfinite, x)) and (exact := fn(*map(Fraction, x))):
            return exact
        with np.errstate(all="ignore"):
            return float(fn(*map(np.float64, x)))

    return compute


def _product(kind, x, y):
    return _rounded(_exact(lambda p, q: p * q)(x, y), kind)


def _sum(kind, x, y):
    return _rounded(_exact(lambda p, q: p + q)(x, y), kind)


def _flushed(x):
    return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x


def _without_denormals(x, y, z):
    x, y, z = map(_flushed, (x, y, z))
    return _flushed(_sum("f32", _flushed(_product("f32", x, y)), z))


def _legacy(x, y):
    return 0.0 if x == 0 or y == 0 else _product("f32", x, y)


def _order(x):
    return x, math.copysign(1, x)


def _number(fn, *x):
    """The smallest or largest number, NaN only if there is none; -0 is below 0."""
    numbers = [value for value in x if not math.isnan(value)]
    return fn(numbers, key=_order) if numbers else math.nan


def _median(*x):
    return _number(min, *x) if any(map(math.isnan, x)) else sorted(x, key=_order)[1]


def _strict(fn, *x):
    """IEEE's minimum and maximum: NaN if there is one; -0 is below 0."""
    return math.nan if any(map(math.isnan, x)) else fn(x, key=_order)


def _fixup(kind):
    """The quotient q of n / d: its sign and the special cases."""
    info, low = np.finfo(WIDTHS[kind]), {"f16": -25, "f32": -150, "f64": -1075}[kind]

    def exponent(x):
        return max(math.frexp(x)[1] - 1, int(info.minexp) - 1)

    def compute(q, d, n):
        sign = math.copysign(1, d) * math.copysign(1, n)
        if any(map(math.isnan, (d, n))) or d == n == 0 or (math.isinf(d) and math.isinf(n)):
            return math.nan
        if d == 0 or math.isinf(n):
            return sign * math.inf
        if math.isinf(d) or n == 0 or exponent(n) - exponent(d) < low:
            return sign * 0.0
        return sign * (math.inf if math.isnan(q) else abs(q))

    return compute


def _whole(fn):
    """An integer, with the sign of the source if it is 0; what is not finite stays."""
    return lambda x: math.copysign(abs(fn(x)), x) if math.isfinite(x) else x


def _fract(kind):
    below = Fraction(float(np.nextafter(WIDTHS[kind](1), WIDTHS[kind](0))))
    return lambda x: min(Fraction(x) - math.floor(x), below) if math.isfinite(x) else math.nan


def _ldexp(x, power):
    if not math.isfinite(x) or not x:
        return x
    return Fraction(x) * Fraction(2) ** max(-3000, min(power, 3000))


def _saturated(kind, fn):
    """A conversion to an integer type; NaN is 0."""
    bits = int(kind[1:])
    low, high = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def compute(x):
        if not math.isfinite(x):
            return 0 if math.isnan(x) else low if x < 0 else high
        return max(low, min(fn(Fraction(x)), high))

    return compute


def _pair(fn):
    return lambda x, y: fn(x) | fn(y) << 16


def _half(x):
    return int(np.float16(_rounded(x, "f16")).view(np.uint16))


def _half_toward_zero(x):
    half = np.float16(_rounded(x, "f16"))
    beyond = math.isfinite(x) and abs(float(half)) > abs(x)
    return int(half.view(np.uint16)) - beyond


def _brain(x):
    with np.errstate(all="ignore"):
        return int(np.float32(x).astype(ml_dtypes.bfloat16).view(np.uint16))


def _normalised(low, scale):
    def compute(x):
        clipped = 0 if math.isnan(x) else max(low, min(x, 1))
        return round(Fraction(clipped) * scale) % 65536

    return compute


def _into_byte(x, place, word):
    shift = 8 * (place & 3)
    return word & ~(255 << shift) | _saturated("u8", round)(x) << shift


def _float_of_bits(bits):
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    return value


FLOATS = {}
for _kind in WIDTHS:
    _two, _three, _power = f"{_kind} " * 2, f"{_kind} " * 3, "i16" if _kind == "f16" else "i32"
    FLOATS |= {
        f"v_add_{_kind}": (_two, _exact(lambda x, y: x + y)),
        f"v_sub_{_kind}": (_two, _exact(lambda x, y: x - y)),
        f"v_subrev_{_kind}": (_two, _exact(lambda x, y: y - x)),
        f"v_mul_{_kind}": (_two, _exact(lambda x, y: x * y)),
        f"v_fma_{_kind}": (_three, _exact(lambda x, y, z: x * y + z)),
        f"v_min_{_kind}": (_two, lambda *x: _number(min, *x)),
        f"v_max_{_kind}": (_two, lambda *x: _number(max, *x)),
        f"v_min3_{_kind}": (_three, lambda *x: _number(min, *x)),
        f"v_max3_{_kind}": (_three, lambda *x: _number(max, *x)),
        f"v_med3_{_kind}": (_three, _median),
        f"v_minimum3_{_kind}": (_three, lambda *x: _strict(min, *x)),
        f"v_maximum3_{_kind}": (_three, lambda *x: _strict(max, *x)),
        f"v_div_fixup_{_kind}": (_three, _fixup(_kind)),
        f"v_rndne_{_kind}": (_kind, _whole(round)),
        f"v_trunc_{_kind}": (_kind, _whole(math.trunc)),
        f"v_floor_{_kind}": (_kind, _whole(math.floor)),
        f"v_ceil_{_kind}": (_kind, _whole(math.ceil)),
        f"v_fract_{_kind}": (_kind, _fract(_kind)),
        f"v_ldexp_{_kind}": (f"{_kind} {_power}", _ldexp),
        f"v_frexp_mant_{_kind}": (_kind, lambda x: math.frexp(x)[0] if math.isfinite(x) else x),
        f"v_frexp_exp_{_power}_{_kind}": (
            _kind,
            lambda x: math.frexp(x)[1] if math.isfinite(x) else 0,
        ),
    }
for _name in ["sub", "subrev", "min3", "max3", "med3", "minimum3", "maximum3"]:
    del FLOATS[f"v_{_name}_f64"]  # there is no such instruction
FLOATS |= dict.fromkeys(("v_fmaak_f32", "v_fmamk_f32"), FLOATS["v_fma_f32"])
for _name in ("mad", "madak", "madmk"):
    FLOATS[f"v_{_name}_f16"] = (
        "f16 f16 f16",
        lambda x, y, z: _sum("f16", _product("f16", x, y), z),
    )
    FLOATS[f"v_{_name}_f32"] = ("f32 f32 f32", _without_denormals)
FLOATS |= {
    "v_mul_legacy_f32": ("f32 f32", _legacy),
    "v_mad_legacy_f32": ("f32 f32 f32", lambda x, y, z: _sum("f32", _legacy(x, y), z)),
    "v_cvt_rpi_i32_f32": ("f32", _saturated("i32", lambda x: math.floor(x + Fraction(1, 2)))),
    "v_cvt_flr_i32_f32": ("f32", _saturated("i32", math.floor)),
    "v_cvt_f32_bf16": ("u16", lambda bits: _float_of_bits(bits << 16)),
    "v_cvt_pk_bf16_f32": ("f32 f32", _pair(_brain)),
    "v_cvt_pk_f16_f32": ("f32 f32", _pair(_half)),
    "v_cvt_pkrtz_f16_f32": ("f32 f32", _pair(_half_toward_zero)),
    "v_cvt_pknorm_i16_f32": ("f32 f32", _pair(_normalised(-1, 32767))),
    "v_cvt_pknorm_u16_f32": ("f32 f32", _pair(_normalised(0, 65535))),
    "v_cvt_pk_u8_f32": ("f32 u32 u32", _into_byte),
    **{f"v_cvt_f32_ubyte{k}": ("u32", lambda a, k=k: Fraction(a >> 8 * k & 255)) for k in range(4)},
}
for _pair_ in [
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
]:
    _of = _pair_.partition("_")[2]
    FLOATS[f"v_cvt_{_pair_}"] = (_of, lambda x: Fraction(x) if math.isfinite(x) and x else x)
for _pair_ in ["i32_f32", "u32_f32", "u16_f16", "i16_f16", "i32_f64", "u32_f64"]:
    _to, _of = _pair_.split("_")
    FLOATS[f"v_cvt_{_pair_}"] = (_of, _saturated(_to, math.trunc))


@pytest.mark.parametrize("mnemonic", INTEGERS | FLOATS | DOTS)
def test_rows_are_exact(mnemonic):
    text, fn = (INTEGERS | FLOATS | DOTS)[mnemonic]
    kinds, result = text.split(), OPS[mnemonic].result if mnemonic in OPS else "u32"
    given, got = apply(mnemonic, kinds, result)
    columns = [
        x.ravel().tolist() if kind in WIDTHS else ints(x, kind)
        for x, kind in zip(given, kinds, strict=True)
    ]
    want = [fn(*x) for x in zip(*columns, strict=True)]
    if result in WIDTHS:
        wrong = [not same(x, _rounded(y, result)) for x, y in zip(got.ravel(), want, strict=True)]
    else:
        size = 2 ** int(result[1:])
        wrong = [x != y % size for x, y in zip(ints(got, "u" + result[1:]), want, strict=True)]
    at = [i for i, bad in enumerate(wrong) if bad]
    assert not at, [([c[i] for c in columns], got.ravel()[i], want[i]) for i in at[:5]]


def _limit(fn, at_zero):
    """A function of positive numbers; NaN of others."""

    def compute(x):
        if x == 0:
            return math.copysign(at_zero, x) if at_zero != -math.inf else at_zero
        return math.nan if x < 0 or math.isnan(x) else fn(x)

    return compute


def _turns(fn, beyond):
    """A function of turns; hardware gives up beyond 256 of them."""
    return lambda x: beyond if abs(x) > 256 else fn(2 * math.pi * math.fmod(x, 1))


FUNCTIONS = {
    "exp": lambda x: 2.0**x if x < 1024 else math.inf,
    "log": _limit(lambda x: math.log2(x) if math.isfinite(x) else x, -math.inf),
    "rcp": lambda x: 1 / x if x else math.copysign(math.inf, x),
    "rcp_iflag": lambda x: 1 / x if x else math.copysign(math.inf, x),
    "rsq": _limit(lambda x: 1 / math.sqrt(x), math.inf),
    "sqrt": _limit(math.sqrt, 0.0),
    "sin": _turns(math.sin, 0.0),
    "cos": _turns(math.cos, 1.0),
}
NEAR = {name: FUNCTIONS[name[2:-4]] for name in OPS if name[2:-4] in FUNCTIONS}


@pytest.mark.parametrize("mnemonic", NEAR)
def test_functions_are_good_to_the_last_bit(mnemonic):
    """Single precision has no denormals; the hardware's own last bit is not known."""
    kind, fn = mnemonic[-3:], NEAR[mnemonic]
    (x,), got = apply(mnemonic, [kind], kind)
    flush = _flushed if kind == "f32" else float
    for value, found in zip(x.ravel().tolist(), got.ravel(), strict=True):
        if math.isinf(value) and mnemonic[2:5] in ("sin", "cos"):
            assert math.isnan(found)
            continue
        want = flush(_rounded(fn(flush(value)), kind)) if not math.isnan(value) else value
        if not math.isfinite(want):
            assert same(found, want), (value, found, want)
        else:
            unit = float(np.spacing(WIDTHS[kind](abs(want))))
            assert abs(float(found) - want) <= 2 * unit + 1e-15 * (abs(want) < 1e-3), (
                value,
                found,
                want,
            )


# ---- all of them ---------------------------------------------------------------------------------


def test_every_row_has_a_test():
    elsewhere = {"v_trig_preop_f64"}  # digits of 2/pi: test_two_by_pi.py
    assert {*INTEGERS, *FLOATS, *NEAR, *elsewhere} == set(OPS)
    assert elsewhere.isdisjoint({*INTEGERS, *FLOATS, *NEAR})


def test_every_row_is_an_instruction_or_half_of_a_packed_one():
    known = {
        form.mnemonic for a in ARCHES for table in forms(a).values() for form in table.values()
    }
    assert [name for name in OPS if not {name, f"v_pk_{name[2:]}"} & known] == []
