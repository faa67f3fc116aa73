# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every row of the scalar instructions and of scalar loads, against Python's integers."""

from __future__ import annotations

import operator
from itertools import product

import numpy as np
import pytest
from gfx9_kernels import (
    BARRIER,
    END,
    OFF,
    execute,
    integer,
    kernel,
    literal,
    loads,
    op,
    put,
    random_bits,
    run,
    s,
    single,
    twos,
    v,
    wait,
)
from hipdnn_iree.emulation import scalar, smem
from hipdnn_iree.emulation.encodings import ARCHES, forms
from hipdnn_iree.emulation.errors import EmulationError

U32 = np.uint32
B32 = 2**32
EDGES = {
    32: [0, 1, 2, 31, 32, 0xFF, 0x8000, 0xFFFF, 0x80004, 0x12345678, 2**31 - 1, 2**31, B32 - 1],
    64: [0, 1, 63, 0xFFFFFFFF, 2**32, 0x80004 << 32, 2**63 - 1, 2**63, 2**64 - 1, 0x123456789ABC],
}


def _width(kind):
    return int(kind[1:])


def _given(kinds):
    """All pairs of edge values, and some of random bits, as unsigned numbers."""
    columns = [
        EDGES[_width(kind)] + random_bits(seed, 3, bits=_width(kind)).tolist()
        for seed, kind in enumerate(kinds)
    ]
    return list(product(*columns))


def _write(m, first, values, bits):
    for word in range(bits // 32):
        m.s[first + word] = [value >> 32 * word & 0xFFFFFFFF for value in values]


def _read(m, first, bits):
    return [
        sum(int(word) << 32 * at for at, word in enumerate(column))
        for column in m.s[first : first + bits // 32].T
    ]


def _as(kind, value):
    return twos(value, _width(kind)) if kind[0] == "i" else value


def _field(bits):
    """A field of s_bfe: bits 5:0 of the second source are its place, 22:16 how many bits it has."""

    def compute(x, y):
        place, size = y & (bits - 1), y >> 16 & 127
        size = min(size, bits - place)
        return (x >> place) & ((1 << size) - 1)

    return compute


def _signed_field(bits):
    def compute(x, y):
        size = min(y >> 16 & 127, bits - (y & (bits - 1)))
        found = _field(bits)(x & (1 << bits) - 1, y)
        return twos(found, size) if size else 0

    return compute


def _nonzero(r, *_):
    return r != 0


def _outside(x):
    return not -(2**31) <= x < 2**31


# ---- arithmetic ----------------------------------------------------------------------------------

LOGIC = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "andn2": lambda x, y: x & ~y,
    "orn2": lambda x, y: x | ~y,
    "nand": lambda x, y: ~(x & y),
    "nor": lambda x, y: ~(x | y),
    "xnor": lambda x, y: ~(x ^ y),
}
# Types of the result and of the sources, the result as Python has it, and scc (None: it stays).
BINARY = {
    "s_add_u32": ("u32 u32 u32", operator.add, lambda r, x, y: x + y >= B32),
    "s_sub_u32": ("u32 u32 u32", operator.sub, lambda r, x, y: x < y),
    "s_add_i32": ("i32 i32 i32", operator.add, lambda r, x, y: _outside(x + y)),
    "s_sub_i32": ("i32 i32 i32", operator.sub, lambda r, x, y: _outside(x - y)),
    "s_absdiff_i32": ("u32 i32 i32", lambda x, y: abs(x - y), _nonzero),
    "s_mul_i32": ("u32 u32 u32", operator.mul, None),
    "s_mul_hi_u32": ("u32 u32 u32", lambda x, y: x * y >> 32, None),
    "s_mul_hi_i32": ("i32 i32 i32", lambda x, y: x * y >> 32, None),
    "s_min_i32": ("i32 i32 i32", min, lambda r, x, y: x < y),
    "s_min_u32": ("u32 u32 u32", min, lambda r, x, y: x < y),
    "s_max_i32": ("i32 i32 i32", max, lambda r, x, y: x > y),
    "s_max_u32": ("u32 u32 u32", max, lambda r, x, y: x > y),
    "s_lshl_b32": ("u32 u32 u32", lambda x, y: x << (y & 31), _nonzero),
    "s_lshr_b32": ("u32 u32 u32", lambda x, y: x >> (y & 31), _nonzero),
    "s_ashr_i32": ("i32 i32 u32", lambda x, y: x >> (y & 31), _nonzero),
    "s_lshl_b64": ("u64 u64 u32", lambda x, y: x << (y & 63), _nonzero),
    "s_lshr_b64": ("u64 u64 u32", lambda x, y: x >> (y & 63), _nonzero),
    "s_ashr_i64": ("i64 i64 u32", lambda x, y: x >> (y & 63), _nonzero),
    "s_bfm_b32": ("u32 u32 u32", lambda x, y: ((1 << (x & 31)) - 1) << (y & 31), None),
    "s_bfm_b64": ("u64 u32 u32", lambda x, y: ((1 << (x & 63)) - 1) << (y & 63), None),
    "s_bfe_u32": ("u32 u32 u32", _field(32), _nonzero),
    "s_bfe_i32": ("i32 u32 u32", _signed_field(32), _nonzero),
    "s_bfe_u64": ("u64 u64 u32", _field(64), _nonzero),
    "s_bfe_i64": ("i64 u64 u32", _signed_field(64), _nonzero),
    "s_pack_ll_b32_b16": ("u32 u32 u32", lambda x, y: x & 65535 | (y & 65535) << 16, None),
    "s_pack_lh_b32_b16": ("u32 u32 u32", lambda x, y: x & 65535 | y & 0xFFFF0000, None),
    "s_pack_hh_b32_b16": ("u32 u32 u32", lambda x, y: x >> 16 | y & 0xFFFF0000, None),
    **{
        f"s_lshl{k}_add_u32": (
            "u32 u32 u32",
            lambda x, y, k=k: (x << k) + y,
            lambda r, x, y, k=k: (x << k) + y >= B32,
        )
        for k in (1, 2, 3, 4)
    },
    **{
        f"s_{name}_b{bits}": (f"u{bits} u{bits} u{bits}", fn, _nonzero)
        for name, fn in LOGIC.items()
        for bits in (32, 64)
    },
}


def _ends(x, bits, wanted):
    """The number of the lowest bit that is `wanted`, or -1."""
    text = f"{x:0{bits}b}"[::-1]
    return text.find(str(wanted))


def _leading(x, bits):
    return bits - x.bit_length() if x else -1


def _sign_bits(x, bits):
    """How many bits, from the top, are the sign; -1 if all are."""
    return -1 if x in (0, -1) else bits - (x if x > 0 else ~x).bit_length()


UNARY = {
    "s_not_b32": ("u32 u32", lambda x: ~x, _nonzero),
    "s_not_b64": ("u64 u64", lambda x: ~x, _nonzero),
    "s_mov_b32": ("u32 u32", lambda x: x, None),
    "s_mov_b64": ("u64 u64", lambda x: x, None),
    "s_brev_b32": ("u32 u32", lambda x: int(f"{x:032b}"[::-1], 2), None),
    "s_brev_b64": ("u64 u64", lambda x: int(f"{x:064b}"[::-1], 2), None),
    "s_abs_i32": ("u32 i32", abs, _nonzero),
    "s_sext_i32_i8": ("i32 u32", lambda x: twos(x & 255, 8), None),
    "s_sext_i32_i16": ("i32 u32", lambda x: twos(x & 65535, 16), None),
    "s_flbit_i32": ("i32 i32", lambda x: _sign_bits(x, 32), None),
    "s_flbit_i32_i64": ("i32 i64", lambda x: _sign_bits(x, 64), None),
}
for _bits in (32, 64):
    UNARY |= {
        f"s_ff0_i32_b{_bits}": (f"i32 u{_bits}", lambda x, n=_bits: _ends(x, n, 0), None),
        f"s_ff1_i32_b{_bits}": (f"i32 u{_bits}", lambda x, n=_bits: _ends(x, n, 1), None),
        f"s_flbit_i32_b{_bits}": (f"i32 u{_bits}", lambda x, n=_bits: _leading(x, n), None),
        f"s_bcnt0_i32_b{_bits}": (
            f"u32 u{_bits}",
            lambda x, n=_bits: n - x.bit_count(),
            _nonzero,
        ),
        f"s_bcnt1_i32_b{_bits}": (f"u32 u{_bits}", int.bit_count, _nonzero),
    }


@pytest.mark.parametrize("name", BINARY | UNARY)
def test_results_and_flags(name):
    text, fn, flag = (BINARY | UNARY)[name]
    kind, *kinds = text.split()
    rows = _given(kinds)
    m = single(waves=len(rows))
    before = np.arange(len(rows)) % 3 == 0
    m.scc[:] = before
    operands = []
    for at, source in enumerate(kinds):
        _write(m, 10 + 2 * at, [row[at] for row in rows], _width(source))
        operands.append(s(10 + 2 * at, _width(source) // 32))
    execute(m, op(name, s(20, _width(kind) // 32), *operands, encoding=f"sop{len(kinds)}"))
    found = zip(rows, _read(m, 20, _width(kind)), m.scc, before, strict=True)
    for row, got, scc, old in found:
        values = [_as(source, value) for source, value in zip(kinds, row, strict=True)]
        want = fn(*values) % 2 ** _width(kind)
        assert got == want, (row, got, want)
        assert bool(scc) == (old if flag is None else flag(_as(kind, want), *values)), row


@pytest.mark.parametrize("name", ["s_addc_u32", "s_subb_u32"])
def test_carries(name):
    rows = list(product(EDGES[32], EDGES[32], (0, 1)))
    m = single(waves=len(rows))
    for at in (0, 1):
        m.s[10 + at] = [row[at] for row in rows]
    m.scc[:] = [row[2] for row in rows]
    execute(m, op(name, s(10), s(10), s(11), encoding="sop2"))
    exact = [x + y + c if name == "s_addc_u32" else x - y - c for x, y, c in rows]
    assert m.s[10].tolist() == [x % B32 for x in exact]
    assert m.scc.tolist() == [not 0 <= x < B32 for x in exact]


# ---- immediates of the instruction ---------------------------------------------------------------

IMMEDIATES = {
    "s_movk_i32": (lambda old, k: k, None),
    "s_addk_i32": (lambda old, k: old + k, lambda old, k: _outside(old + k)),
    "s_mulk_i32": (lambda old, k: old * k, None),
}


@pytest.mark.parametrize("name", IMMEDIATES)
@pytest.mark.parametrize("number", [0, 1, -1, 32767, -32768])
def test_immediates(name, number):
    fn, flag = IMMEDIATES[name]
    m = single(waves=len(EDGES[32]))
    m.s[10], m.scc[:] = EDGES[32], True
    execute(m, op(name, s(10), integer(number), encoding="sopk"))
    old = [twos(x, 32) for x in EDGES[32]]
    assert m.s[10].tolist() == [fn(x, number) % B32 for x in old]
    assert m.scc.tolist() == [True if flag is None else flag(x, number) for x in old]


# ---- flags ---------------------------------------------------------------------------------------

ORDERS = {
    "eq": operator.eq,
    "lg": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
COMPARES = {f"s_cmp_{c}_{t}": (t, fn) for c, fn in ORDERS.items() for t in ("i32", "u32")}
COMPARES |= {f"s_cmp_{c}_u64": ("u64", ORDERS[c]) for c in ("eq", "lg")}
CONSTANT_COMPARES = {n.replace("cmp", "cmpk"): row for n, row in COMPARES.items() if "64" not in n}


@pytest.mark.parametrize("name", COMPARES)
def test_compares(name):
    kind, fn = COMPARES[name]
    rows = _given([kind, kind])
    m = single(waves=len(rows))
    for at in (0, 1):
        _write(m, 10 + 2 * at, [row[at] for row in rows], _width(kind))
    count = _width(kind) // 32
    execute(m, op(name, s(10, count), s(12, count), encoding="sopc"))
    assert m.scc.tolist() == [fn(_as(kind, x), _as(kind, y)) for x, y in rows]


@pytest.mark.parametrize("name", CONSTANT_COMPARES)
def test_compares_with_the_instructions_number(name):
    kind, fn = CONSTANT_COMPARES[name]
    m = single(waves=len(EDGES[32]))
    m.s[10] = EDGES[32]
    for number in (0, 1, 255, 32767, *((-1, -32768) if kind == "i32" else (32768, 65535))):
        execute(m, op(name, s(10), integer(number), encoding="sopk"))
        assert m.scc.tolist() == [fn(_as(kind, x), number) for x in EDGES[32]], number


BITS = [f"s_bit{what}{value}_b{n}" for what in ("cmp", "set") for value in (0, 1) for n in (32, 64)]


@pytest.mark.parametrize("name", BITS)
def test_single_bits(name):
    bits, value = int(name[-2:]), int(name[8])
    rows = list(product(EDGES[bits], (0, 1, 31, 32, 63, 64, B32 - 1)))
    m = single(waves=len(rows))
    _write(m, 10, [x for x, _ in rows], bits)
    m.s[12] = [n for _, n in rows]
    m.scc[:] = False
    execute(m, op(name, s(10, bits // 32), s(12), encoding="sopc"))
    found = _read(m, 10, bits)
    for at, (x, number) in enumerate(rows):
        bit = 1 << number % bits
        if "cmp" in name:
            assert (found[at], bool(m.scc[at])) == (x, bool(x & bit) == bool(value)), (x, number)
        else:
            assert found[at] == (x | bit if value else x & ~bit), (x, number)
            assert not m.scc[at]


@pytest.mark.parametrize("flag", [False, True])
def test_selects(flag):
    m = single()
    m.scc[:] = flag
    m.s[10:14] = np.array([1, 2, 3, 4], U32)[:, None]
    for name, sources, encoding in (
        ("s_cselect_b32", (s(10), s(12)), "sop2"),
        ("s_cselect_b64", (s(10, 2), s(12, 2)), "sop2"),
        ("s_cmov_b32", (s(10),), "sop1"),
        ("s_cmov_b64", (s(10, 2),), "sop1"),
        ("s_cmovk_i32", (integer(-7),), "sopk"),
    ):
        count = 2 if name.endswith("64") else 1
        m.s[20:22] = np.array([30, 40], U32)[:, None]
        execute(m, op(name, s(20, count), *sources, encoding=encoding))
        other = [3, 4] if "select" in name else [30, 40]
        chosen = [B32 - 7, 0] if name == "s_cmovk_i32" else [1, 2]
        want = (chosen if flag else other)[:count] + [40] * (2 - count)
        assert m.s[20:22, 0].tolist() == want, name
        assert m.scc.all() == flag


SELECTS = {"s_cselect_b32", "s_cselect_b64", "s_cmov_b32", "s_cmov_b64", "s_cmovk_i32"}


# ---- masks of lanes ------------------------------------------------------------------------------

SAVES = {
    f"s_{name}_saveexec_b64": fn
    for name, fn in {
        **LOGIC,
        "andn1": lambda x, y: ~x & y,
        "orn1": lambda x, y: ~x | y,
    }.items()
}


@pytest.mark.parametrize("name", SAVES)
def test_exec_is_saved_and_changed(name):
    rows = list(product(EDGES[64], EDGES[64]))
    m = single(waves=len(rows))
    _write(m, 10, [x for x, _ in rows], 64)
    _write(m, 126, [e for _, e in rows], 64)
    m.refresh()
    execute(m, op(name, s(12, 2), s(10, 2), encoding="sop1"))
    want = [SAVES[name](x, e) % 2**64 for x, e in rows]
    assert _read(m, 12, 64) == [e for _, e in rows]
    assert _read(m, 126, 64) == want
    assert m.scc.tolist() == [x != 0 for x in want]
    on = np.ones((m.count, 64), bool) if m.mask is None else m.mask
    assert on.sum(1).tolist() == [x.bit_count() for x in want]  # what vector instructions see


# ---- where to go on ------------------------------------------------------------------------------


def _stored(*instructions, **fields):
    """What s[10] holds at the end of a kernel, in lane 0."""
    program = [
        op("s_mov_b64", s(20, 2), s(0, 2), encoding="sop1"),  # the address of the arguments
        *instructions,
        op("s_load_dwordx2", s(4, 2), s(20, 2), integer(0), encoding="smem"),
        wait(lgkmcnt=0),
        op("s_mov_b64", s(126, 2), integer(1), encoding="sop1"),
        op("v_mov_b32", v(1), s(10)),
        op("v_mov_b32", v(0), integer(0)),
        op("global_store_dword", v(0), v(1), s(4, 2), encoding="global"),
        END,
    ]
    (found,), _ = run(kernel(*program, **fields), [np.zeros(1, U32)])
    return int(found[0])


def _mov(register, value, count=1):
    return op(f"s_mov_b{32 * count}", s(register, count), integer(value), encoding="sop1")


def _branch(name, target):
    return op(name, encoding="sopp", target=target)


# Branch, what makes it go, what makes it stay.
_COMPARE = [op("s_cmp_eq_u32", integer(n), integer(1), encoding="sopc") for n in (0, 1)]
BRANCHES = {
    "s_cbranch_scc0": _COMPARE,
    "s_cbranch_scc1": _COMPARE[::-1],
    "s_cbranch_vccz": (_mov(106, 0, 2), _mov(107, 1)),
    "s_cbranch_vccnz": (_mov(107, 1), _mov(106, 0, 2)),
    "s_cbranch_execz": (_mov(126, 0, 2), _mov(127, 1)),
    "s_cbranch_execnz": (_mov(127, 1), _mov(126, 0, 2)),
}


@pytest.mark.parametrize("name", [*BRANCHES, "s_branch"])
@pytest.mark.parametrize("goes", [True, False])
def test_branches(name, goes):
    if name == "s_branch":
        setup, goes = _mov(11, 0), True
    else:
        setup = BRANCHES[name][0 if goes else 1]
    # 0 is the saved address; _stored puts it before these.
    found = _stored(
        _mov(106, 0, 2), _mov(126, 0, 2), setup, _mov(10, 5), _branch(name, 7), _mov(10, 6)
    )
    assert found == (5 if goes else 6)


def test_the_program_counter():
    """s_getpc, s_setpc, s_swappc and s_call: addresses are those of the loaded code."""
    base = 0x7000_0000_1000
    assert _stored(op("s_getpc_b64", s(10, 2), encoding="sop1"), base=base) == 0x1000 + 8
    assert (
        _stored(
            _mov(10, 0),
            op("s_getpc_b64", s(12, 2), encoding="sop1"),  # 12 and base
            op("s_add_u32", s(12), s(12), integer(12), encoding="sop2"),
            op("s_setpc_b64", s(12, 2), encoding="sop1"),  # to 24
            _mov(10, 9),
            op("s_add_u32", s(10), s(10), integer(1), encoding="sop2"),
            base=base,
        )
        == 1
    )
    for name in ("s_swappc_b64", "s_call_b64"):
        call = (
            op(name, s(14, 2), s(12, 2), encoding="sop1")
            if name == "s_swappc_b64"
            else op(name, s(14, 2), encoding="sopk", target=7)
        )
        found = _stored(
            op("s_getpc_b64", s(12, 2), encoding="sop1"),  # 8 and base
            op("s_add_u32", s(12), s(12), integer(20), encoding="sop2"),
            _mov(10, 0),
            call,  # at 16, to 28
            op("s_add_u32", s(10), s(10), integer(1), encoding="sop2"),
            _branch("s_branch", 10),
            op("s_add_u32", s(10), s(10), integer(2), encoding="sop2"),  # at 28
            op("s_setpc_b64", s(14, 2), encoding="sop1"),
            _mov(10, 0),
            base=base,
        )
        assert found == 3, name


COUNTER = {"s_getpc_b64", "s_setpc_b64", "s_swappc_b64", "s_call_b64"}


@pytest.mark.parametrize("name", ["s_endpgm", "s_endpgm_saved"])
def test_the_end(name):
    program = [*loads(1), op(name, encoding="sopp"), op("s_trap", encoding="sopp")]
    (found,), _ = run(kernel(*program), [np.full(1, 7, U32)])
    assert found[0] == 7


def test_a_trap_is_an_error():
    with pytest.raises(EmulationError, match="s_trap: the kernel stopped itself"):
        run(kernel(op("s_trap", encoding="sopp"), END), [])


# Caches, priorities and pauses.
IGNORED = [
    *("s_nop", "s_sleep", "s_setprio", "s_ttracedata", "s_icache_inv"),
    *("s_dcache_wb", "s_dcache_inv", "s_dcache_wb_vol", "s_dcache_inv_vol"),
    *("buffer_wbl2", "buffer_invl2", "buffer_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol"),
]


@pytest.mark.parametrize("name", IGNORED)
def test_what_changes_no_result(name):
    m = single()
    put(m, 1, random_bits(1, 2, 64))
    m.scc[:] = [True, False]
    state = [m.s.copy(), m.scc.copy(), m.files["v"].copy(), m.modes.copy()]
    execute(m, op(name, encoding="sopp"))
    for before, after in zip(state, (m.s, m.scc, m.files["v"], m.modes), strict=True):
        assert (before == after).all()


def test_the_mode_register():
    """s_setreg and s_getreg of parts of it; other registers and rounding modes are errors."""
    found = _stored(
        _mov(11, 5),
        op("s_setreg_imm32_b32", OFF, literal(0), encoding="sopk", hwreg=(1, 4, 4)),
        op("s_setreg_b32", OFF, s(11), encoding="sopk", hwreg=(1, 5, 2)),  # two bits of 0b101
        op("s_getreg_b32", s(10), OFF, encoding="sopk", hwreg=(1, 4, 4)),
    )
    assert found == 0b0010
    for hwreg, why in (((1, 0, 2), "a rounding mode"), ((2, 0, 2), "hardware register 2")):
        change = op("s_setreg_imm32_b32", OFF, literal(1), encoding="sopk", hwreg=hwreg)
        with pytest.raises(EmulationError, match=why):
            run(kernel(change, END), [])
    with pytest.raises(EmulationError, match="hardware register 7"):
        run(kernel(op("s_getreg_b32", s(1), OFF, encoding="sopk", hwreg=(7, 0, 32)), END), [])


def test_barriers_and_waits():
    """Each wave counts to a place of its own in the LDS; the sum is read behind a barrier."""
    program = [
        *loads(1),
        op("v_lshrrev_b32", v(2), integer(6), v(0)),  # the wave
        op("v_lshlrev_b32", v(3), integer(2), v(2)),
        op("ds_write_b32", v(3), v(2), encoding="ds"),
        wait(lgkmcnt=0),
        BARRIER,
        op("v_mov_b32", v(4), integer(0)),
        op("ds_read2_b32", v(6, 2), v(4), encoding="ds", offset0=0, offset1=1),
        wait(lgkmcnt=0),
        op("v_add_u32", v(6), v(6), v(7)),
        op("v_lshlrev_b32", v(1), integer(2), v(0)),
        op("global_store_dword", v(1), v(6), s(4, 2), encoding="global"),
        END,
    ]
    made = kernel(*program, workitem_ids=0, lds_size=8)
    (found,), _ = run(made, [np.zeros(128, U32)], block=(128, 1, 1))
    assert (found == 1).all()
    for missing, why in ((6, "race on LDS"), (5, "race on LDS|missing s_waitcnt")):
        fewer = [x for at, x in enumerate(program) if at != missing]
        made = kernel(*fewer, workitem_ids=0, lds_size=8)
        with pytest.raises(EmulationError, match=why):
            run(made, [np.zeros(128, U32)], block=(128, 1, 1))


# ---- scalar memory -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in smem.BUILDERS if "load" in n])
def test_scalar_loads(name):
    """Offsets are a number, a register, or both; addresses are those of words."""
    count = int(name.partition("dwordx")[2] or 1)
    m = single()
    words = random_bits(1, 64)
    place = m.memory.allocate(words.nbytes)
    m.memory.view(place, words.nbytes)[:] = words.view(np.uint8)
    buffer = "buffer" in name
    m.s[20:24] = np.array([place % B32, place >> 32, 256, 0], U32)[:, None]
    m.s[24] = [8, 16]
    for offset, more, first in (
        (integer(20), 0, (5, 5)),
        (s(24), 0, (2, 4)),
        (s(24), 4, (3, 5)),
        (literal(0x2A), 0, (10, 10)),
    ):
        source = s(20, 4 if buffer else 2)
        execute(m, op(name, s(32, count), source, offset, encoding="smem", offset=more))
        for wave in (0, 1):
            want = words[first[wave] : first[wave] + count].tolist()
            assert m.s[32 : 32 + count, wave].tolist() == want
    far = integer(257 - 4 * count) if buffer else integer(260 - 4 * count)
    why = "out of range" if buffer else "outside every allocation"
    with pytest.raises(EmulationError, match=why):
        execute(m, op(name, s(32, count), source, far, encoding="smem"))
    if not buffer:
        m.s[20] = place % B32 + 64
        execute(m, op(name, s(32, count), source, integer(-60), encoding="smem"))
        assert m.s[32 : 32 + count, 0].tolist() == words[1 : 1 + count].tolist()


@pytest.mark.parametrize("name", ["s_memtime", "s_memrealtime"])
def test_clocks_go_on(name):
    m = single()
    clock = smem.BUILDERS[name](m, op(name, s(10, 2), encoding="smem"))
    seen = []
    for _ in range(3):
        clock.run()
        seen.append(_read(m, 10, 64))
    assert seen[0][0] < seen[1][0] < seen[2][0]


# ---- all of them ---------------------------------------------------------------------------------


def test_every_row_has_a_test():
    tested = [
        *(BINARY, UNARY, IMMEDIATES, COMPARES, CONSTANT_COMPARES, BITS, SELECTS, SAVES),
        *(BRANCHES, COUNTER, IGNORED, ["s_addc_u32", "s_subb_u32", "s_branch"]),
        *(["s_endpgm", "s_endpgm_saved", "s_trap", "s_barrier", "s_waitcnt"],),
        *(["s_setreg_b32", "s_setreg_imm32_b32", "s_getreg_b32"],),
    ]
    names = [name for table in tested for name in table]
    assert len(names) == len(set(names))
    assert set(names) == set(scalar.BUILDERS)


@pytest.mark.parametrize("table", [scalar.BUILDERS, smem.BUILDERS])
def test_every_row_is_an_instruction(table):
    known = {form.mnemonic for a in ARCHES for rows in forms(a).values() for form in rows.values()}
    assert [name for name in table if name not in known] == []
