# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scalar ALU, branches, barriers, waits and the mode register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from .errors import EmulationError, UnsupportedError
from .formats import Array
from .instruction import Instruction
from .integers import bit_field, count_ones, first_one, leading_bits, mul_high, reverse_bits
from .state import EXEC, VCC
from .steps import Builder, Control, Machine, Plain, Wait

__all__ = ["BUILDERS"]

_MODE = 1  # hardware register that holds rounding, denormals, clamping
_ROUNDING = 0xF
_TOP = {"u32": 32, "u64": 64}
U32, U64 = np.uint32, np.uint64


def _wide(x: Array) -> Array:
    return x.astype(np.int64)


def _overflows(x: Array) -> Array:
    return (x > 0x7FFFFFFF) | (x < -0x80000000)


def _shift_add(k: int) -> tuple[Any, Any]:
    return (
        lambda x, y: (x << U32(k)) + y,
        lambda r, x, y: (x.astype(U64) << U64(k)) + y > U64(0xFFFFFFFF),
    )


def _nonzero(result: Array, x: Array, y: Array) -> Array:
    return result != 0


def _by_count(fn: Callable[[Array, Array], Array], bits: int) -> Callable[[Array, Array], Array]:
    return lambda x, y: fn(x, (y & U32(bits - 1)).astype(x.dtype))


def _mask(bits: int) -> Callable[[Array, Array], Array]:
    dtype: Any = U32 if bits == 32 else U64

    def compute(x: Array, y: Array) -> Array:
        one = dtype(1)
        ones = (one << (x & U32(bits - 1)).astype(dtype)) - one
        return ones << (y & U32(bits - 1)).astype(dtype)

    return compute


def _field(x: Array, y: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    return bit_field(x, y & U32(bits - 1), (y >> U32(16)) & U32(127))


_LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "andn1": lambda x, y: ~x & y,
    "orn1": lambda x, y: ~x | y,
    "andn2": lambda x, y: x & ~y,
    "orn2": lambda x, y: x | ~y,
    "nand": lambda x, y: ~(x & y),
    "nor": lambda x, y: ~(x | y),
    "xnor": lambda x, y: ~(x ^ y),
}

# name: types of the sources, result, scc of (result, x, y) or None where it stays.
_Scc = Callable[[Array, Array, Array], Array]
_BINARY: dict[str, tuple[tuple[str, str], Callable[[Array, Array], Array], _Scc | None]] = {
    "s_add_u32": (("u32", "u32"), np.add, lambda r, x, y: r < y),
    "s_sub_u32": (("u32", "u32"), np.subtract, lambda r, x, y: x < y),
    "s_add_i32": (("i32", "i32"), np.add, lambda r, x, y: _overflows(_wide(x) + y)),
    "s_sub_i32": (("i32", "i32"), np.subtract, lambda r, x, y: _overflows(_wide(x) - y)),
    "s_absdiff_i32": (
        ("i32", "i32"),
        lambda x, y: np.abs(_wide(x) - y).astype(U32),
        _nonzero,
    ),
    "s_mul_i32": (("u32", "u32"), np.multiply, None),
    "s_mul_hi_u32": (("u32", "u32"), mul_high, None),
    "s_mul_hi_i32": (("i32", "i32"), mul_high, None),
    "s_lshl_b32": (("u32", "u32"), _by_count(np.left_shift, 32), _nonzero),
    "s_lshr_b32": (("u32", "u32"), _by_count(np.right_shift, 32), _nonzero),
    "s_ashr_i32": (("i32", "u32"), _by_count(np.right_shift, 32), _nonzero),
    "s_lshl_b64": (("u64", "u32"), _by_count(np.left_shift, 64), _nonzero),
    "s_lshr_b64": (("u64", "u32"), _by_count(np.right_shift, 64), _nonzero),
    "s_ashr_i64": (("i64", "u32"), _by_count(np.right_shift, 64), _nonzero),
    "s_bfm_b32": (("u32", "u32"), _mask(32), None),
    "s_bfm_b64": (("u32", "u32"), _mask(64), None),
    "s_bfe_u32": (("u32", "u32"), _field, _nonzero),
    "s_bfe_i32": (("i32", "u32"), _field, _nonzero),
    "s_bfe_u64": (("u64", "u32"), _field, _nonzero),
    "s_bfe_i64": (("i64", "u32"), _field, _nonzero),
    "s_min_u32": (("u32", "u32"), np.minimum, lambda r, x, y: x < y),
    "s_max_u32": (("u32", "u32"), np.maximum, lambda r, x, y: x > y),
    "s_min_i32": (("i32", "i32"), np.minimum, lambda r, x, y: x < y),
    "s_max_i32": (("i32", "i32"), np.maximum, lambda r, x, y: x > y),
    "s_pack_ll_b32_b16": (("u32", "u32"), lambda x, y: (x & U32(0xFFFF)) | (y << U32(16)), None),
    "s_pack_lh_b32_b16": (
        ("u32", "u32"),
        lambda x, y: (x & U32(0xFFFF)) | (y & U32(0xFFFF0000)),
        None,
    ),
    "s_pack_hh_b32_b16": (
        ("u32", "u32"),
        lambda x, y: (x >> U32(16)) | (y & U32(0xFFFF0000)),
        None,
    ),
}
for _k in (1, 2, 3, 4):
    _BINARY[f"s_lshl{_k}_add_u32"] = (("u32", "u32"), *_shift_add(_k))
for _name, _fn in _LOGIC.items():
    for _bits in (32, 64) if "n1" not in _name else ():  # those are of saveexec alone
        _BINARY[f"s_{_name}_b{_bits}"] = ((f"u{_bits}", f"u{_bits}"), _fn, _nonzero)

# name: type of the source, result, whether scc tells if it is not 0.
_UNARY: dict[str, tuple[str, Callable[[Array], Array], bool]] = {
    "s_mov_b32": ("u32", lambda x: x, False),
    "s_mov_b64": ("u64", lambda x: x, False),
    "s_movk_i32": ("u32", lambda x: x, False),
    "s_not_b32": ("u32", np.invert, True),
    "s_not_b64": ("u64", np.invert, True),
    "s_brev_b32": ("u32", reverse_bits, False),
    "s_brev_b64": ("u64", reverse_bits, False),
    "s_abs_i32": ("i32", np.abs, True),
    "s_sext_i32_i8": ("u32", lambda x: x.astype(np.uint8).view(np.int8).astype(np.int32), False),
    "s_sext_i32_i16": ("u32", lambda x: x.astype(np.uint16).view(np.int16).astype(np.int32), False),
    "s_ff1_i32_b32": ("u32", first_one, False),
    "s_ff1_i32_b64": ("u64", first_one, False),
    "s_ff0_i32_b32": ("u32", lambda x: first_one(~x), False),
    "s_ff0_i32_b64": ("u64", lambda x: first_one(~x), False),
    "s_flbit_i32_b32": ("u32", leading_bits, False),
    "s_flbit_i32_b64": ("u64", leading_bits, False),
    "s_flbit_i32": ("i32", leading_bits, False),
    "s_flbit_i32_i64": ("i64", leading_bits, False),
    "s_bcnt1_i32_b32": ("u32", count_ones, True),
    "s_bcnt1_i32_b64": ("u64", count_ones, True),
    "s_bcnt0_i32_b32": ("u32", lambda x: count_ones(~x), True),
    "s_bcnt0_i32_b64": ("u64", lambda x: count_ones(~x), True),
}


def _words(x: Array) -> int:
    return int(x.dtype.itemsize) // 4


def _set_scc(m: Machine, x: Array) -> None:
    m.put_waves(m.scc, x)


def _binary(m: Machine, i: Instruction) -> Plain:
    kinds, fn, scc = _BINARY[i.mnemonic]
    a, b = (m.read_scalar(o, k) for o, k in zip(i.operands[1:], kinds, strict=True))
    write = m.write_scalar(i.operands[0], _words(fn(np.ones(1, a().dtype), np.ones(1, b().dtype))))

    def run() -> None:
        x, y = a(), b()
        result = fn(x, y)
        flag = None if scc is None else scc(result, x, y)
        write(result)
        if flag is not None:
            _set_scc(m, flag)

    return Plain(run)


def _unary(m: Machine, i: Instruction) -> Plain:
    kind, fn, flag = _UNARY[i.mnemonic]
    a = m.read_scalar(i.operands[1], kind)
    write = m.write_scalar(i.operands[0], _words(fn(np.ones(1, a().dtype))))

    def run() -> None:
        result = fn(a())
        write(result)
        if flag:
            _set_scc(m, result != 0)

    return Plain(run)


def _immediate(m: Machine, i: Instruction) -> Plain:
    """s_addk_i32, s_mulk_i32: the destination is the first source."""
    a, b = m.read_scalar(i.operands[0], "i32"), m.read_scalar(i.operands[1], "i32")
    write = m.write_scalar(i.operands[0])
    if i.mnemonic == "s_mulk_i32":
        return Plain(lambda: write(a() * b()))

    def run() -> None:
        total = _wide(a()) + b()
        write(total.astype(np.int32))
        _set_scc(m, _overflows(total))

    return Plain(run)


def _carry(m: Machine, i: Instruction) -> Plain:
    a, b = m.read_scalar(i.operands[1], "u32"), m.read_scalar(i.operands[2], "u32")
    write, sign = m.write_scalar(i.operands[0]), 1 if i.mnemonic == "s_addc_u32" else -1

    def run() -> None:
        total = _wide(a()) + sign * (_wide(b()) + m.scc)
        write(total.astype(U32))
        _set_scc(m, (total > 0xFFFFFFFF) | (total < 0))

    return Plain(run)


def _select(m: Machine, i: Instruction) -> Plain:
    """s_cselect, and s_cmov, which keeps its destination instead of a second choice."""
    words = 2 if i.mnemonic.endswith("64") else 1
    kind = "u64" if words == 2 else "u32"
    a = m.read_scalar(i.operands[1], kind)
    b = m.read_scalar(i.operands[2 if "cselect" in i.mnemonic else 0], kind)
    write = m.write_scalar(i.operands[0], words)
    return Plain(lambda: write(np.where(m.scc, a(), b())))


_ORDER: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}


def _compare(m: Machine, i: Instruction) -> Plain:
    _, _, condition, kind = i.mnemonic.split("_")
    fn = _ORDER[condition]
    a, b = m.read_scalar(i.operands[0], kind), m.read_scalar(i.operands[1], kind)
    return Plain(lambda: _set_scc(m, fn(a(), b())))


def _bit_compare(m: Machine, i: Instruction) -> Plain:
    kind, wanted = "u64" if i.mnemonic.endswith("64") else "u32", int(i.mnemonic[8])
    a, b = m.read_scalar(i.operands[0], kind), m.read_scalar(i.operands[1], "u32")
    top = U32(_TOP[kind] - 1)

    def run() -> None:
        x = a()
        _set_scc(m, ((x >> (b() & top).astype(x.dtype)) & x.dtype.type(1)) == wanted)

    return Plain(run)


def _bit_set(m: Machine, i: Instruction) -> Plain:
    """s_bitset0, s_bitset1: one bit of the destination."""
    kind = "u64" if i.mnemonic.endswith("64") else "u32"
    old, which = m.read_scalar(i.operands[0], kind), m.read_scalar(i.operands[1], "u32")
    write, top = m.write_scalar(i.operands[0], _TOP[kind] // 32), U32(_TOP[kind] - 1)
    on = i.mnemonic[8] == "1"

    def run() -> None:
        x = old()
        bit = x.dtype.type(1) << (which() & top).astype(x.dtype)
        write(x | bit if on else x & ~bit)

    return Plain(run)


def _save_exec(m: Machine, i: Instruction) -> Plain:
    fn = _LOGIC[i.mnemonic.split("_")[1]]
    a = m.read_scalar(i.operands[1], "u64")
    save = m.write_scalar(i.operands[0], 2)
    execs = type(i.operands[0])("s", EXEC, 2, name="exec")
    old, write = m.read_scalar(execs, "u64"), m.write_scalar(execs, 2)

    def run() -> None:
        before = old()
        after = np.broadcast_to(fn(a(), before), before.shape)
        flag = after != 0
        save(before)
        write(after)
        _set_scc(m, flag)

    return Plain(run)


def _program_counter(m: Machine, i: Instruction) -> Plain | Control:
    base, after = m.kernel.base, i.address + i.size
    here = np.array([base + after], U64)
    if i.mnemonic == "s_getpc_b64":
        write = m.write_scalar(i.operands[0], 2)
        return Plain(lambda: write(here))
    if i.mnemonic == "s_call_b64":
        link = m.write_scalar(i.operands[0], 2)
        target = np.array([int(i.modifiers["target"])], np.int64)  # type: ignore[arg-type]

        def call() -> Array:
            link(here)
            return target

        return Control("jump", taken=call)
    to = m.read_scalar(i.operands[-1], "i64")
    save = m.write_scalar(i.operands[0], 2) if i.mnemonic == "s_swappc_b64" else None

    def jump() -> Array:
        target = to() - base
        if save is not None:
            save(here)
        return target

    return Control("jump", taken=jump)


def _branch(m: Machine, i: Instruction) -> Control:
    def any_bit(first: int) -> Array:
        bits: Array = m.s[first] | m.s[first + 1]
        return bits

    conditions: dict[str, Callable[[], Array] | None] = {
        "s_branch": None,
        "s_cbranch_scc0": lambda: ~m.scc,
        "s_cbranch_scc1": lambda: m.scc,
        "s_cbranch_vccz": lambda: any_bit(VCC) == 0,
        "s_cbranch_vccnz": lambda: any_bit(VCC) != 0,
        "s_cbranch_execz": lambda: any_bit(EXEC) == 0,
        "s_cbranch_execnz": lambda: any_bit(EXEC) != 0,
    }
    return Control("branch", int(i.modifiers["target"]), conditions[i.mnemonic])  # type: ignore[arg-type]


def _mode_bits(i: Instruction) -> tuple[int, int]:
    """Return first bit and width of an access to the mode register."""
    number, first, width = (int(x) for x in cast("tuple[int, ...]", i.modifiers["hwreg"]))
    if number != _MODE:
        raise UnsupportedError(f"hardware register {number}")
    return first, width


def _set_mode(m: Machine, i: Instruction) -> Control:
    first, width = _mode_bits(i)
    value = m.read_scalar(i.operands[-1], "u32")
    field = (1 << width) - 1

    def change() -> Array:
        new = (_wide(np.broadcast_to(value(), (m.count,))) & field) << first
        m.put_waves(m.modes, (m.modes & ~(field << first)) | new)
        if (m.modes & _ROUNDING)[m.active].any():
            raise UnsupportedError("a rounding mode other than to nearest even")
        return m.modes

    return Control("mode", taken=change)


def _get_mode(m: Machine, i: Instruction) -> Plain:
    first, width = _mode_bits(i)
    write, field = m.write_scalar(i.operands[0]), (1 << width) - 1
    return Plain(lambda: write(((m.modes >> first) & field).astype(U32)))


def _wait(m: Machine, i: Instruction) -> Wait:
    vm, lgkm = int(i.modifiers["vmcnt"]), int(i.modifiers["lgkmcnt"])  # type: ignore[arg-type]
    return Wait((-1 if vm >= 63 else vm, -1 if lgkm >= 15 else lgkm))


def _trap(m: Machine, i: Instruction) -> Plain:
    def run() -> None:
        raise EmulationError("the kernel stopped itself")

    return Plain(run)


def _nothing(m: Machine, i: Instruction) -> Plain:
    return Plain(lambda: None)


_IGNORED = [
    "s_nop",
    "s_sleep",
    "s_setprio",
    "s_icache_inv",
    "s_dcache_wb",
    "s_dcache_inv",
    "s_dcache_wb_vol",
    "s_dcache_inv_vol",
    "s_ttracedata",
    "buffer_wbl2",
    "buffer_invl2",
    "buffer_inv",
    "buffer_wbinvl1",
    "buffer_wbinvl1_vol",
]

BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(("s_addk_i32", "s_mulk_i32"), _immediate),
    **dict.fromkeys(("s_addc_u32", "s_subb_u32"), _carry),
    **dict.fromkeys(
        ("s_cselect_b32", "s_cselect_b64", "s_cmov_b32", "s_cmov_b64", "s_cmovk_i32"), _select
    ),
    **{f"s_{k}_{c}_{t}": _compare for k in ("cmp", "cmpk") for c in _ORDER for t in ("i32", "u32")},
    **dict.fromkeys(("s_cmp_eq_u64", "s_cmp_lg_u64"), _compare),
    **{f"s_bitcmp{v}_b{n}": _bit_compare for v in (0, 1) for n in (32, 64)},
    **{f"s_bitset{v}_b{n}": _bit_set for v in (0, 1) for n in (32, 64)},
    **{f"s_{name}_saveexec_b64": _save_exec for name in _LOGIC},
    **dict.fromkeys(("s_getpc_b64", "s_setpc_b64", "s_swappc_b64", "s_call_b64"), _program_counter),
    **{f"s_cbranch_{c}": _branch for c in ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")},
    "s_branch": _branch,
    "s_barrier": lambda m, i: Control("barrier"),
    "s_endpgm": lambda m, i: Control("end"),
    "s_endpgm_saved": lambda m, i: Control("end"),
    "s_setreg_b32": _set_mode,
    "s_setreg_imm32_b32": _set_mode,
    "s_getreg_b32": _get_mode,
    "s_waitcnt": _wait,
    "s_trap": _trap,
    **dict.fromkeys(_IGNORED, _nothing),
}
