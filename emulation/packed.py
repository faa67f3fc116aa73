# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed instructions: two results at a time, mixed precision, and dot products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .alu import OPS, SATURATING
from .errors import UnsupportedError
from .floats import clamp, fma
from .formats import DTYPES, Array, constant, flush, from_bf16, size_of
from .instruction import Instruction, Operand
from .state import Reader, Waves, allow
from .steps import Builder, Machine, Plain
from .vector import destination

__all__ = ["BUILDERS"]

F16, F32, F64, U16, U32, I64 = np.float16, np.float32, np.float64, np.uint16, np.uint32, np.int64
_PACKED = {"op_sel", "op_sel_hi", "neg_lo", "neg_hi"}


def _bits(i: Instruction, name: str, count: int, default: int = 0) -> list[int]:
    value = i.modifiers.get(name, ())
    given = [int(x) for x in value] if isinstance(value, tuple) else []
    return given + [default] * (count - len(given))


def _negated(read: Reader, negate: int, kind: str) -> Reader:
    if not negate:
        return read
    unsigned = np.dtype(f"u{size_of(kind)}")
    top = np.array(1 << (8 * unsigned.itemsize - 1), unsigned)
    return lambda: (read().view(unsigned) ^ top).view(DTYPES[kind])


def _half(m: Waves, operand: Operand, kind: str, upper: int, negate: int) -> Reader:
    """Read one 16-bit half of a source."""
    dtype = DTYPES[kind]
    if operand.file == "const":
        # Float constants fill the lower half; integers are sign-extended; literals are 32 bits.
        single = operand.kind == "float"
        word = constant(operand, kind).view(U16).astype(U32) if single else constant(operand, "u32")
        value = (word >> U32(16 * upper)).astype(U16).view(dtype)[:, None]
        return _negated(lambda: value, negate, kind)
    if operand.file in ("v", "a"):
        part = m.register(operand).view(dtype)[..., upper::2]
        read: Reader = lambda: part  # noqa: E731
    else:
        whole = m.read_scalar(Operand(operand.file, operand.index, 1, name=operand.name), "u32")
        read = lambda: (whole() >> U32(16 * upper)).astype(U16).view(dtype)[:, None]  # noqa: E731
    if m.denormals(kind)[0]:
        base = read
        read = lambda: flush(base())  # noqa: E731
    return _negated(read, negate, kind)


def _word(m: Waves, operand: Operand, upper: int, negate: int, kind: str) -> Reader:
    """Read one word of a source of two."""
    if operand.file == "const":
        value = constant(operand, kind)[:, None]
        return _negated(lambda: value, negate, kind)
    at = 1 if upper and operand.count > 1 else 0
    plain = Operand(operand.file, operand.index + at, 1)
    return _negated(m.read(plain, kind), negate, kind)


def _pair(m: Machine, i: Instruction) -> Plain:
    """v_pk_*: each half has its own choice of source halves and signs."""
    allow(i, _PACKED | {"clamp"})
    op = OPS["v_" + i.mnemonic[5:]]
    operands, kinds = i.operands[1:], op.sources
    n = len(kinds)
    selects = (_bits(i, "op_sel", n), _bits(i, "op_sel_hi", n, 1))
    negates = (_bits(i, "neg_lo", n), _bits(i, "neg_hi", n))
    flushes, nan_is_zero = m.denormals(op.result)[1], bool(m.mode >> 8 & 1)
    clamps = bool(i.modifiers.get("clamp"))
    fn = op.fn
    if clamps and op.result[0] != "f":
        saturating = SATURATING.get("v_" + i.mnemonic[5:])
        if saturating is None:
            raise UnsupportedError("clamp on this packed instruction")
        fn, clamps = saturating, False

    def finish(x: Array) -> Array:
        if clamps:
            x = clamp(x, nan_is_zero)
        return flush(np.ascontiguousarray(x)) if flushes else x

    if size_of(op.result) == 4:
        words = [
            [_word(m, o, selects[p][j], negates[p][j], kinds[j]) for j, o in enumerate(operands)]
            for p in (0, 1)
        ]
        targets = [m.register(i.operands[0], k).view(DTYPES[op.result]) for k in (0, 1)]

        def both_words() -> None:
            results = [finish(fn(*[r() for r in part])) for part in words]
            for target, x in zip(targets, results, strict=True):
                m.put(target, x)

        return Plain(both_words)
    halves = [
        [_half(m, o, kinds[j], selects[p][j], negates[p][j]) for j, o in enumerate(operands)]
        for p in (0, 1)
    ]
    whole = m.register(i.operands[0]).view(DTYPES[op.result])
    places = [whole[..., p::2] for p in (0, 1)]

    def both_halves() -> None:
        results = [finish(fn(*[r() for r in part])) for part in halves]
        for place, x in zip(places, results, strict=True):
            m.put(place, x)

    return Plain(both_halves)


def _accumulate(m: Machine, i: Instruction) -> Plain:
    """v_pk_fmac_f16: each half of the destination is the addend of its own product."""
    allow(i, frozenset())
    whole = m.register(i.operands[0]).view(F16)
    halves = [[_half(m, o, "f16", p, 0) for o in (*i.operands[1:3], i.operands[0])] for p in (0, 1)]
    flushes = m.denormals("f16")[1]

    def run() -> None:
        results = [fma(*[r() for r in part]) for part in halves]
        for p, x in enumerate(results):
            m.put(whole[..., p::2], flush(np.ascontiguousarray(x)) if flushes else x)

    return Plain(run)


def _move(m: Machine, i: Instruction) -> Plain:
    """v_pk_mov_b32: the low result from the first source, the high one from the second."""
    allow(i, _PACKED)
    select = _bits(i, "op_sel", 2)
    read = [_word(m, i.operands[1 + k], select[k], 0, "u32") for k in (0, 1)]
    targets = [m.register(i.operands[0], k) for k in (0, 1)]

    def run() -> None:
        for target, x in zip(targets, [np.array(r()) for r in read], strict=True):
            m.put(target, x)

    return Plain(run)


def _mixed(m: Machine, i: Instruction) -> Plain:
    """v_fma_mix: op_sel_hi marks halves among the sources, op_sel says which."""
    allow(i, _PACKED | {"clamp"})
    halves, upper = _bits(i, "op_sel_hi", 3), _bits(i, "op_sel", 3)
    negate, absolute = _bits(i, "neg_lo", 3), _bits(i, "neg_hi", 3)

    def one(j: int) -> Reader:
        o = i.operands[1 + j]
        turned = Operand(
            o.file,
            o.index,
            o.count,
            o.bits,
            o.name,
            bool(o.neg or negate[j]),
            bool(o.abs or absolute[j]),
            kind=o.kind,
        )
        if not halves[j]:
            return m.read(turned, "f32")
        read = _half(m, o, "f16", upper[j], 0)

        def widened() -> Array:
            x = read().astype(F32)
            if turned.abs:
                x = np.abs(x)
            return -x if turned.neg else x

        return widened

    a, b, c = (one(j) for j in range(3))
    if i.mnemonic.endswith("f32"):
        write = destination(m, i, "f32")
        return Plain(lambda: write(fma(a(), b(), c())))
    write = destination(m, i, "f16", keeps=True, high="mixhi" in i.mnemonic)
    return Plain(lambda: write(_fma_to_half(a(), b(), c())))


def _fma_to_half(a: Array, b: Array, c: Array) -> Array:
    """The fused sum of single-precision values is rounded to half once."""
    product, wide = a.astype(F64) * b.astype(F64), c.astype(F64)
    total = product + wide
    t = total - product
    error = (product - (total - t)) + (wide - t)
    bits = np.ascontiguousarray(total).view(I64)
    odd = np.where((error > 0) == (total > 0), bits + 1, bits - 1)
    fix = (error != 0) & ((bits & 1) == 0) & np.isfinite(total)
    return np.where(fix, odd, bits).view(F64).astype(F16)


# ---- dot products --------------------------------------------------------------------------------


def _octets(x: Array, signed: bool) -> Array:
    parts = np.ascontiguousarray(x)[..., None].view(np.int8 if signed else np.uint8)
    return parts.astype(I64)


def _nibbles(x: Array, signed: bool) -> Array:
    parts = (x[..., None] >> (np.arange(8, dtype=U32) * U32(4))) & U32(15)
    wide = parts.astype(I64)
    return np.where(wide > 7, wide - 16, wide) if signed else wide


def _shorts(x: Array, signed: bool) -> Array:
    parts = np.ascontiguousarray(x)[..., None].view(np.int16 if signed else U16)
    return parts.astype(I64)


_PARTS: dict[str, Callable[[Array, bool], Array]] = {"8": _octets, "4": _nibbles, "16": _shorts}


def _integer_dot(m: Machine, i: Instruction) -> Plain:
    """v_dot2, v_dot4, v_dot8 of integers; the forms with "c" accumulate in the destination."""
    allow(i, _PACKED | {"clamp"} if i.encoding == "vop3p" else {"clamp"})
    if (
        any(_bits(i, "op_sel", 3))
        or not all(_bits(i, "op_sel_hi", 3, 1)[:2])
        or any(_bits(i, "neg_lo", 3))
    ):
        raise UnsupportedError("op_sel or signs on an integer dot product")
    signed, width = "_i32_" in i.mnemonic, i.mnemonic.rsplit("_", 1)[1][1:]
    split = _PARTS[width]
    a, b = m.read(i.operands[1], "u32"), m.read(i.operands[2], "u32")
    c = m.read(i.operands[3] if len(i.operands) > 3 else i.operands[0], "i32" if signed else "u32")
    write = m.write(i.operands[0], "i32" if signed else "u32")
    info = np.iinfo(np.int32 if signed else U32)
    clamps = bool(i.modifiers.get("clamp"))

    def run() -> None:
        total = (split(m.full(a()), signed) * split(m.full(b()), signed)).sum(axis=-1) + c()
        if clamps:
            total = np.clip(total, int(info.min), int(info.max))
        write(total.astype(np.int32 if signed else U32))

    return Plain(run)


def _float_dot(m: Machine, i: Instruction) -> Plain:
    """v_dot2 of halves or bfloat16 into single precision."""
    allow(i, _PACKED | {"clamp"} if i.encoding == "vop3p" else set())
    kind = "bf16" if "bf16" in i.mnemonic else "f16"
    lower, upper = _bits(i, "op_sel", 3), _bits(i, "op_sel_hi", 3, 1)
    negate = (_bits(i, "neg_lo", 3), _bits(i, "neg_hi", 3))

    def halves(j: int) -> list[Reader]:
        o = i.operands[1 + j]
        raw = [
            _half(m, o, "u16" if kind == "bf16" else "f16", part[j], 0) for part in (lower, upper)
        ]
        return [_widened(r, kind, bool(negate[k][j])) for k, r in enumerate(raw)]

    (a0, a1), (b0, b1) = halves(0), halves(1)
    addend = i.operands[3] if len(i.operands) > 3 else i.operands[0]
    c, write = m.read(addend, "f32"), destination(m, i, "f32")
    return Plain(lambda: write((a0() * b0() + a1() * b1() + c()).astype(F32)))


def _widened(read: Reader, kind: str, negate: bool) -> Reader:
    sign = -1.0 if negate else 1.0
    if kind == "bf16":
        return lambda: from_bf16(read()).astype(F64) * sign
    return lambda: read().astype(F64) * sign


_PAIRS = [
    "add_f16",
    "mul_f16",
    "fma_f16",
    "min_f16",
    "max_f16",
    "add_u16",
    "add_i16",
    "sub_u16",
    "sub_i16",
    "mul_lo_u16",
    "mad_u16",
    "mad_i16",
    "min_u16",
    "min_i16",
    "max_u16",
    "max_i16",
    "lshlrev_b16",
    "lshrrev_b16",
    "ashrrev_i16",
    "fma_f32",
    "mul_f32",
    "add_f32",
    "minimum3_f16",
    "maximum3_f16",
]
_DOTS = [
    f"v_dot{n}{c}_{r}_{t}"
    for n, w in ((2, 16), (4, 8), (8, 4))
    for c in ("", "c")
    for r, t in (("i32", f"i{w}"), ("u32", f"u{w}"))
]

BUILDERS: dict[str, Builder] = {
    **{f"v_pk_{name}": _pair for name in _PAIRS},
    "v_pk_fmac_f16": _accumulate,
    "v_pk_mov_b32": _move,
    **{f"v_fma_{t}": _mixed for t in ("mix_f32", "mixlo_f16", "mixhi_f16")},
    **dict.fromkeys(_DOTS, _integer_dot),
    **{f"v_dot2{c}_f32_{t}": _float_dot for c in ("", "c") for t in ("f16", "bf16")},
}
