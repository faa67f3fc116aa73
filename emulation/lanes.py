# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vector ALU instructions with a shape of their own: compares, carries, moves between lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .alu import fp8_types
from .errors import UnsupportedError
from .floats import class_test, div_fmas, div_scale, fma
from .formats import Array, canonical, flush
from .instruction import Instruction, Operand
from .integers import count_ones
from .state import EXEC, LANES, VCC, allow
from .steps import Builder, Machine, Plain
from .vector import VECTOR_MODIFIERS, destination, op_sel, source, sources

__all__ = ["BUILDERS", "COMPARES"]

U32, I64, U64 = np.uint32, np.int64, np.uint64


def _nan(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


COMPARES: dict[str, Callable[[Array, Array], Array]] = {
    "f": lambda a, b: np.zeros(np.broadcast(a, b).shape, bool),
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "lg": lambda a, b: (a < b) | (a > b),
    "ne": np.not_equal,
    "ge": np.greater_equal,
    "o": lambda a, b: ~_nan(a, b),
    "u": _nan,
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": np.not_equal,
    "nlt": lambda a, b: ~(a < b),
    "tru": lambda a, b: np.ones(np.broadcast(a, b).shape, bool),
    "t": lambda a, b: np.ones(np.broadcast(a, b).shape, bool),
}
_INTEGER = ("f", "lt", "eq", "le", "gt", "ne", "ge", "t")
_FLOAT = tuple(c for c in COMPARES if c not in ("ne", "t"))


def _compare(m: Machine, i: Instruction) -> Plain:
    allow(i, VECTOR_MODIFIERS - {"clamp", "omod"})
    _, which, condition, suffix = i.mnemonic.split("_")
    kind = canonical(suffix)
    fn: Callable[[Array, Array], Array] = class_test
    if condition == "class":
        a = source(m, i, i.operands[1], 0, kind)
        if m.denormals(kind)[0]:  # classes are told before denormals are flushed
            a = m.read(i.operands[1], kind, keep=True)
        b = source(m, i, i.operands[2], 1, "u32")
    else:
        fn = COMPARES[condition]
        a, b = sources(m, i, (kind, kind))
    writers = [m.write_scalar(i.operands[0], 2)]
    if which == "cmpx":
        writers.append(m.write_scalar(Operand("s", EXEC, 2, name="exec"), 2))

    def run() -> None:
        lanes = m.pack(fn(a(), b()))
        for write in writers:
            write(lanes)

    return Plain(run)


def _choose(m: Machine, i: Instruction) -> Plain:
    """v_cndmask_b32; sign modifiers treat the sources as floats."""
    allow(i, VECTOR_MODIFIERS - {"clamp", "omod", "op_sel"})
    a, b = (source(m, i, o, j, "u32") for j, o in enumerate(i.operands[1:3]))
    chosen, write = m.read_mask(i.operands[3]), destination(m, i, "u32")
    return Plain(lambda: write(np.where(chosen(), b(), a())))


def _lane_number(m: Machine, operand: Operand) -> Callable[[], Array]:
    read = m.read_scalar(operand, "u32")
    return lambda: (np.broadcast_to(read(), (m.count,)) & U32(63)).astype(I64)


def _first_lane(m: Machine, i: Instruction) -> Plain:
    value, write = m.read(i.operands[1], "u32"), m.write_scalar(i.operands[0])

    def run() -> None:
        lane = np.argmax(m.lanes(EXEC), axis=1)
        write(m.full(value())[m.index, lane])

    return Plain(run)


def _read_lane(m: Machine, i: Instruction) -> Plain:
    value, lane = m.read(i.operands[1], "u32"), _lane_number(m, i.operands[2])
    write = m.write_scalar(i.operands[0])
    return Plain(lambda: write(m.full(value())[m.index, lane()]))


def _write_lane(m: Machine, i: Instruction) -> Plain:
    value, lane = m.read_scalar(i.operands[1], "u32"), _lane_number(m, i.operands[2])
    register = m.register(i.operands[0])

    def run() -> None:
        on = m.active
        register[m.index[on], lane()[on]] = np.broadcast_to(value(), (m.count,))[on]

    return Plain(run)


def _carry(m: Machine, i: Instruction) -> Plain:
    allow(i, VECTOR_MODIFIERS - {"clamp", "omod", "op_sel"})
    write, flag = destination(m, i, "u32"), m.write_scalar(i.operands[1], 2)
    a, b = sources(m, i, ("u32", "u32"), first=2)
    chain = m.read_mask(i.operands[4]) if len(i.operands) > 4 else None
    subtracts, reverse = "sub" in i.mnemonic, "rev" in i.mnemonic

    def run() -> None:
        x, y = a().astype(I64), b().astype(I64)
        if reverse:
            x, y = y, x
        total = x - y if subtracts else x + y
        if chain is not None:
            total = total - chain() if subtracts else total + chain()
        out = m.pack((total < 0) | (total > 0xFFFFFFFF))
        write(total.astype(U32))
        flag(out)

    return Plain(run)


def _mad64(m: Machine, i: Instruction) -> Plain:
    allow(i, frozenset())
    signed = i.mnemonic == "v_mad_i64_i32"
    kind, wide = ("i32", I64) if signed else ("u32", U64)
    write, flag = m.write(i.operands[0], "u64"), m.write_scalar(i.operands[1], 2)
    a, b, c = (
        m.read(i.operands[2], kind),
        m.read(i.operands[3], kind),
        m.read(i.operands[4], "i64" if signed else "u64"),
    )

    def run() -> None:
        product = m.full(a().astype(wide) * b().astype(wide))
        addend = c()
        total = product + addend
        less = total < product
        out = m.pack(less != (addend < 0) if signed else less)
        write(total.view(U64))
        flag(out)

    return Plain(run)


def _div_scale(m: Machine, i: Instruction) -> Plain:
    kind = i.mnemonic[-3:]
    allow(i, frozenset())
    write, flag = m.write(i.operands[0], kind), m.write_scalar(i.operands[1], 2)
    read = sources(m, i, (kind,) * 3, first=2)

    def run() -> None:
        value, scaled = div_scale(*[np.ascontiguousarray(m.full(r())) for r in read])
        out = m.pack(scaled)
        write(value)
        flag(out)

    return Plain(run)


def _div_fmas(m: Machine, i: Instruction) -> Plain:
    kind = i.mnemonic[-3:]
    allow(i, {"clamp", "omod"})
    write, read = destination(m, i, kind), sources(m, i, (kind,) * 3)

    def run() -> None:
        a, b, c = (np.ascontiguousarray(m.full(r())) for r in read)
        write(div_fmas(a, b, c, m.lanes(VCC)))

    return Plain(run)


def _accumulate(m: Machine, i: Instruction) -> Plain:
    """v_fmac (one rounding) and v_mac (two): the destination is the addend."""
    allow(i, VECTOR_MODIFIERS - {"op_sel"})
    kind = i.mnemonic[-3:]
    a, b = sources(m, i, (kind, kind))
    c, write = m.read(i.operands[0], kind), destination(m, i, kind)
    if "fmac" in i.mnemonic:
        return Plain(lambda: write(fma(a(), b(), c())))
    if kind == "f16":
        return Plain(lambda: write(a() * b() + c()))

    def run() -> None:
        x, y, z = (flush(np.ascontiguousarray(r())) for r in (a, b, c))
        write(flush(flush(x * y) + z))

    return Plain(run)


def _bits3(m: Machine, i: Instruction) -> Plain:
    """v_bitop3 (gfx950): any function of three bits, as a table of eight."""
    allow(i, VECTOR_MODIFIERS | {"bitop3"})
    kind = "u" + i.mnemonic[-2:]
    table = int(i.modifiers.get("bitop3", 0))  # type: ignore[arg-type]
    read = sources(m, i, (kind,) * 3)
    high = bool(op_sel(i, 3))
    write = destination(m, i, kind, keeps=kind == "u16", high=high)

    def run() -> None:
        a, b, c = (r() for r in read)
        out = np.zeros((1, 1), a.dtype)
        for k in range(8):
            if table >> k & 1:
                out = out | ((a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c))
        write(out)

    return Plain(run)


def _ones_below(m: Machine, i: Instruction) -> Plain:
    """v_mbcnt: how many bits of a mask belong to lanes below one's own."""
    a, b = sources(m, i, ("u32", "u32"))
    start = 32 if "hi" in i.mnemonic else 0
    below = np.array([(1 << min(max(int(lane) - start, 0), 32)) - 1 for lane in LANES], U32)
    write = destination(m, i, "u32")
    return Plain(lambda: write(count_ones(a() & below) + b()))


def _swap(m: Machine, i: Instruction) -> Plain:
    x, y = m.register(i.operands[0]), m.register(i.operands[1])

    def run() -> None:
        before = x.copy()
        m.put(x, y)
        m.put(y, before)

    return Plain(run)


def _swap_halves(m: Machine, i: Instruction) -> Plain:
    """gfx950: odd rows (or the upper half) trade places with even ones of the source."""
    x, y = m.register(i.operands[0]), m.register(i.operands[1])
    odd = (LANES & (16 if "16" in i.mnemonic else 32)) != 0

    def run() -> None:
        if m.mask is not None and not m.mask[m.active].all():
            raise UnsupportedError("a swap between rows with lanes off")
        first, second = x.copy(), y.copy()
        first[:, odd], second[:, ~odd] = y[:, ~odd], x[:, odd]
        m.put_registers(x, first)
        m.put_registers(y, second)

    return Plain(run)


def _from_fp8(m: Machine, i: Instruction) -> Plain:
    """v_cvt_f32_fp8 and bf8: one byte, which SDWA names."""
    allow(i, VECTOR_MODIFIERS)
    types = fp8_types(m.kernel.target)
    if types is None:
        raise UnsupportedError(f"8-bit floats on {m.kernel.target}")
    of = types[i.mnemonic[-3:]]
    if i.encoding == "sdwa":
        read = source(m, i, i.operands[1], 0, "u8")
    else:
        byte = op_sel(i, 0) + 2 * op_sel(i, 1)
        whole = m.read(i.operands[1], "u32")
        read = lambda: (whole() >> U32(8 * byte)).astype(np.uint8)  # noqa: E731
    if i.mnemonic.startswith("v_cvt_f32"):
        write = destination(m, i, "f32")
        return Plain(lambda: write(read().view(of).astype(np.float32)))
    both = m.read(i.operands[1], "u32")
    upper = i.modifiers.get("src0_sel") == "WORD_1" or bool(op_sel(i, 0))
    targets = [m.register(i.operands[0], k) for k in (0, 1)]

    def run() -> None:
        word = both() >> U32(16 if upper else 0)
        values = [(word >> U32(8 * k)).astype(np.uint8).view(of).astype(np.float32) for k in (0, 1)]
        for target, value in zip(targets, values, strict=True):
            m.put(target, m.full(value).view(U32))

    return Plain(run)


def _to_fp8(m: Machine, i: Instruction) -> Plain:
    """v_cvt_pk_fp8_f32 and bf8: two bytes into one half of the destination."""
    allow(i, {"op_sel"})
    types = fp8_types(m.kernel.target)
    if types is None:
        raise UnsupportedError(f"8-bit floats on {m.kernel.target}")
    to = types[i.mnemonic.split("_")[3]]
    a, b = m.read(i.operands[1], "f32"), m.read(i.operands[2], "f32")
    high = bool(op_sel(i, 2))
    part = m.register(i.operands[0]).view(np.uint16).reshape(m.count, 64, 2)[..., int(high)]

    def run() -> None:
        low8, high8 = (np.asarray(x()).astype(to).view(np.uint8).astype(np.uint16) for x in (a, b))
        m.put(part, low8 | (high8 << np.uint16(8)))

    return Plain(run)


def _nothing(m: Machine, i: Instruction) -> Plain:
    return Plain(lambda: None)


_CARRIES = [
    "add_co_u32",
    "sub_co_u32",
    "subrev_co_u32",
    "addc_co_u32",
    "subb_co_u32",
    "subbrev_co_u32",
]
BUILDERS: dict[str, Builder] = {
    **{
        f"v_{k}_{c}_{t}": _compare
        for k in ("cmp", "cmpx")
        for conditions, types in ((_INTEGER, "i16 u16 i32 u32 i64 u64"), (_FLOAT, "f16 f32 f64"))
        for c in conditions
        for t in types.split()
    },
    **{f"v_{k}_class_{t}": _compare for k in ("cmp", "cmpx") for t in ("f16", "f32", "f64")},
    "v_cndmask_b32": _choose,
    "v_readfirstlane_b32": _first_lane,
    "v_readlane_b32": _read_lane,
    "v_writelane_b32": _write_lane,
    **{f"v_{name}": _carry for name in _CARRIES},
    **dict.fromkeys(("v_mad_u64_u32", "v_mad_i64_i32"), _mad64),
    **dict.fromkeys(("v_div_scale_f32", "v_div_scale_f64"), _div_scale),
    **dict.fromkeys(("v_div_fmas_f32", "v_div_fmas_f64"), _div_fmas),
    **{f"v_{n}_{t}": _accumulate for n in ("fmac", "mac") for t in ("f16", "f32")},
    "v_fmac_f64": _accumulate,
    **dict.fromkeys(("v_bitop3_b32", "v_bitop3_b16"), _bits3),
    **dict.fromkeys(("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32"), _ones_below),
    "v_swap_b32": _swap,
    **dict.fromkeys(("v_permlane16_swap_b32", "v_permlane32_swap_b32"), _swap_halves),
    **{f"v_cvt_{n}": _from_fp8 for n in ("f32_fp8", "f32_bf8", "pk_f32_fp8", "pk_f32_bf8")},
    **{f"v_cvt_pk_{n}_f32": _to_fp8 for n in ("fp8", "bf8")},
    "v_nop": _nothing,
}
