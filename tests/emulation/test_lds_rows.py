# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every row of the LDS instructions, against bytes and Python's integers and floats."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from gfx9_kernels import execute, get, op, put, random_bits, single, twos, v
from hipdnn_iree.emulation import ds
from hipdnn_iree.emulation.encodings import ARCHES, forms
from hipdnn_iree.emulation.errors import EmulationError

U32 = np.uint32
ON = np.arange(64) % 7 != 3  # the lanes that are on where not all are
_MASK = sum(1 << lane for lane in range(64) if ON[lane])


def _machine(target="gfx942"):
    m = single(target, waves=1, lds=8192)
    content = random_bits(9, 8192, bits=8)
    m.lds.u8[:8192] = content
    return m, content.tobytes()


def _switch_off(m):
    m.s[126], m.s[127] = _MASK & 0xFFFFFFFF, _MASK >> 32
    m.refresh()


def _bytes(m):
    return m.lds.u8[:8192].tobytes()


def _registers(m, first, count):
    """The registers of each lane, as bytes."""
    return np.ascontiguousarray(m.files["v"][first : first + count, 0].T)


# ---- loads and stores ----------------------------------------------------------------------------

# Bytes of memory, and what becomes of them: extended with zeros or the sign, to 16 bits that
# leave the other half of the register as it is, or whole words.
READS = {
    **{f"ds_read_{k}": (int(k[1:]) // 8, k[0], "") for k in ("u8", "i8", "u16", "i16")},
    **{
        f"ds_read_{k}_{half}": (int(k[1:]) // 8, k[0], half)
        for k in ("u8", "i8", "u16")
        for half in ("d16", "d16_hi")
    },
    **{f"ds_read_b{n}": (n // 8, "b", "") for n in (32, 64, 96, 128)},
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("shift", [0, 1])
def test_reads(name, shift):
    size, kind, half = READS[name]
    m, content = _machine()
    address = np.random.default_rng(1).permutation(64).astype(U32) * 16 + U32(shift)
    put(m, 1, address[None])
    count = max(size // 4, 1)
    for k in range(count):
        put(m, 4 + k, np.full((1, 64), 0xAAAABBBB, U32))
    _switch_off(m)
    execute(m, op(name, v(4, count), v(1), encoding="ds", offset=20))
    for lane, row in enumerate(_registers(m, 4, count)):
        at = int(address[lane]) + 20
        found = content[at : at + size]
        if kind != "b":
            value = int.from_bytes(found, "little", signed=kind == "i")
            if half == "d16":
                value = 0xAAAA0000 | value % 2**16
            elif half == "d16_hi":
                value = value % 2**16 << 16 | 0xBBBB
            found = (value % 2**32).to_bytes(4, "little")
        assert row.tobytes() == (found if ON[lane] else b"\xbb\xbb\xaa\xaa" * count), lane


WRITES = {
    "ds_write_b8": (1, 0),
    "ds_write_b16": (2, 0),
    "ds_write_b8_d16_hi": (1, 2),  # bytes, and where they begin in the register
    "ds_write_b16_d16_hi": (2, 2),
    **{f"ds_write_b{n}": (n // 8, 0) for n in (32, 64, 96, 128)},
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("shift", [0, 1])
def test_writes(name, shift):
    size, first = WRITES[name]
    m, content = _machine()
    address = np.random.default_rng(1).permutation(64).astype(U32) * 20 + U32(shift)
    put(m, 1, address[None])
    count = max(size // 4, 1)
    for k in range(count):
        put(m, 4 + k, random_bits(k, 1, 64))
    _switch_off(m)
    execute(m, op(name, v(1), v(4, count), encoding="ds", offset=24))
    want = bytearray(content)
    for lane, row in enumerate(_registers(m, 4, count)):
        at = int(address[lane]) + 24
        if ON[lane]:
            want[at : at + size] = row.tobytes()[first : first + size]
    assert _bytes(m) == want


TWO = {
    f"ds_{way}2{far}_b{bits}": (bits // 8, 64 if far else 1)
    for way in ("read", "write")
    for far in ("", "st64")
    for bits in (32, 64)
}


@pytest.mark.parametrize("name", TWO)
def test_pairs(name):
    """Offsets count elements, or 64 of them; the result may lie where the address was."""
    size, unit = TWO[name]
    m, content = _machine()
    words = size // 4
    address = np.random.default_rng(2).permutation(64).astype(U32) * 2 * size
    put(m, 4, address[None])
    _switch_off(m)
    offsets = {"offset0": 3 if unit == 1 else 2, "offset1": 0}
    places = [
        [int(x) + size * unit * offset for offset in offsets.values()] for x in address.tolist()
    ]
    if "read" in name:
        execute(m, op(name, v(4, 2 * words), v(4), encoding="ds", **offsets))
        for lane, row in enumerate(_registers(m, 4, 2 * words)):
            want = b"".join(content[at : at + size] for at in places[lane])
            if ON[lane]:
                assert row.tobytes() == want, lane
        return
    for k in range(2 * words):
        put(m, 8 + k, random_bits(k, 1, 64))
    execute(m, op(name, v(4), v(8, words), v(8 + words, words), encoding="ds", **offsets))
    found, given = _bytes(m), _registers(m, 8, 2 * words)
    wanted = bytearray(content)
    for number in (0, 1):  # the second after the first
        for lane in np.flatnonzero(ON):
            at, row = places[lane][number], given[lane].tobytes()
            wanted[at : at + size] = row[number * size : number * size + size]
    assert found == wanted


TRANSPOSING = {"ds_read_b64_tr_b8": 1, "ds_read_b64_tr_b16": 2}


@pytest.mark.parametrize("name", TRANSPOSING)
def test_transposing_reads(name):
    """16 lanes read a tile whose rows are 8 bytes of each; columns go to lanes."""
    size = TRANSPOSING[name]
    m, content = _machine("gfx950")
    address = np.random.default_rng(3).permutation(64).astype(U32) * 8
    put(m, 1, address[None])
    execute(m, op(name, v(2, 2), v(1), encoding="ds"))
    rows = [content[at : at + 8] for at in address.tolist()]
    per = 8 // size
    for lane, got in enumerate(_registers(m, 2, 2)):
        group, within = lane // 16 * 16, lane % 16
        # As a matrix of per x 16 elements: row k is held by 16/per lanes; the lane's column.
        want = b""
        for k in range(per):
            source = rows[group + k * (16 // per) + within // per]
            want += source[within % per * size :][:size]
        assert got.tobytes() == want, lane


# ---- exchanges -----------------------------------------------------------------------------------

SWIZZLES = {
    0x041F: lambda lane: lane ^ 1,
    0x7C1F: lambda lane: lane ^ 31,  # within 32
    0x0000: lambda lane: lane & 32,
    0x00A0 | 0x1C: lambda lane: lane & 0x3C | 5 & 0x1F,
    0x8000 | 0b00011011: lambda lane: lane & ~3 | 3 - (lane & 3),
    0x8000: lambda lane: lane & ~3,
}


@pytest.mark.parametrize("pattern", SWIZZLES)
def test_swizzles(pattern):
    m, _ = _machine()
    x = random_bits(1, 1, 64)
    put(m, 1, x)
    _switch_off(m)
    execute(m, op("ds_swizzle_b32", v(2), v(1), encoding="ds", offset=pattern))
    for lane in np.flatnonzero(ON):
        source = SWIZZLES[pattern](int(lane))
        assert get(m, 2, U32)[0, lane] == (x[0, source] if ON[source] else 0), lane


@pytest.mark.parametrize("name", ["ds_permute_b32", "ds_bpermute_b32"])
def test_permutations(name):
    """Lanes are numbered by bytes, modulo 256; of several that push to one the last one wins."""
    m, _ = _machine()
    x = random_bits(1, 1, 64)
    lanes = np.random.default_rng(2).integers(0, 64, 64)
    put(m, 1, x)
    put(m, 3, (lanes * 4 + 256 * (lanes % 3) - 8).astype(U32)[None])
    _switch_off(m)
    execute(m, op(name, v(2), v(3), v(1), encoding="ds", offset=8))
    got = get(m, 2, U32)[0]
    if name == "ds_bpermute_b32":
        want = {lane: x[0, lanes[lane]] if ON[lanes[lane]] else 0 for lane in range(64)}
    else:
        want = dict.fromkeys(range(64), 0) | {
            int(lanes[lane]): x[0, lane] for lane in range(64) if ON[lane]
        }
    assert all(got[lane] == want[lane] for lane in np.flatnonzero(ON))


# ---- atomics -------------------------------------------------------------------------------------


def _smaller(old, x):
    return old if math.isnan(x) or old <= x else x


def _larger(old, x):
    return old if math.isnan(x) or old >= x else x


# The type, the number of the cell and of the operand -> the new one.
UPDATES = {
    "add_u": lambda old, x, bits: old + x,
    "sub_u": lambda old, x, bits: old - x,
    "rsub_u": lambda old, x, bits: x - old,
    "inc_u": lambda old, x, bits: 0 if old >= x else old + 1,
    "dec_u": lambda old, x, bits: x if old == 0 or old > x else old - 1,
    "min_i": lambda old, x, bits: min(old, x, key=lambda y: twos(y, bits)),
    "max_i": lambda old, x, bits: max(old, x, key=lambda y: twos(y, bits)),
    "min_u": lambda old, x, bits: min(old, x),
    "max_u": lambda old, x, bits: max(old, x),
    "and_b": lambda old, x, bits: old & x,
    "or_b": lambda old, x, bits: old | x,
    "xor_b": lambda old, x, bits: old ^ x,
    "wrxchg_b": lambda old, x, bits: x,
}
FLOAT_UPDATES = {"add_f": lambda old, x: old + x, "min_f": _smaller, "max_f": _larger}


def _named(stems, returns=(False, True)):
    return {
        f"ds_{stem[:-2]}{'_rtn' * rtn}_{stem[-1]}{bits}": (stem, rtn, bits)
        for stem in stems
        for rtn in returns
        for bits in (32, 64)
    }


INTEGER_ATOMICS = {**_named([s for s in UPDATES if s != "wrxchg_b"]), **_named(["wrxchg_b"], [1])}
FLOAT_ATOMICS = _named(FLOAT_UPDATES)
COMPARING = _named(["cmpst_b"])
CELLS = 5


def _updated(name, rtn, bits, data, cells, more=()):
    """Execute on cells that lanes share; return old values by lane, and the cells."""
    m, _ = _machine()
    words, dtype = bits // 32, f"u{bits // 8}"
    where = np.random.default_rng(3).integers(0, CELLS, 64)
    m.lds.u8[16 : 16 + CELLS * bits // 8] = np.array(cells, dtype).view(np.uint8)
    put(m, 1, (where * (bits // 8)).astype(U32)[None])
    operands = []
    for number, values in enumerate((data, *more)):
        put(m, 2 + 2 * number, np.array(values, dtype)[None])
        operands.append(v(2 + 2 * number, words))
    put(m, 10, np.zeros((1, 64), dtype))
    _switch_off(m)
    result = [v(10, words)] if rtn else []
    execute(m, op(name, *result, v(1), *operands, encoding="ds", offset=16))
    after = m.lds.u8[16 : 16 + CELLS * bits // 8].view(dtype).tolist()
    return where.tolist(), get(m, 10, dtype)[0].tolist(), after


@pytest.mark.parametrize("name", INTEGER_ATOMICS)
def test_atomics_update_lane_after_lane(name):
    stem, rtn, bits = INTEGER_ATOMICS[name]
    edges = [0, 1, 2, 2 ** (bits - 1), 2 ** (bits - 1) - 1, 2**bits - 1]
    data = (random_bits(4, 64, bits=bits) % 2 ** (bits - 1)).tolist()
    data[::3] = (edges * 4)[:22]
    cells = [0, 3, 2**bits - 1, 2 ** (bits - 1), 12345]
    where, old, after = _updated(name, rtn, bits, data, cells)
    for lane in np.flatnonzero(ON):
        cell = cells[where[lane]]
        assert not rtn or old[lane] == cell, lane
        cells[where[lane]] = UPDATES[stem](cell, data[lane], bits) % 2**bits
    assert after == cells


@pytest.mark.parametrize("name", COMPARING)
def test_exchanges_that_compare(name):
    """The first operand is what is expected, the second one the new value."""
    _, rtn, bits = COMPARING[name]
    expected = [lane % 3 for lane in range(64)]
    new = [(lane * 7) % 3 for lane in range(64)]
    cells = [0, 1, 2, 2**bits - 1, 0]
    where, old, after = _updated(name, rtn, bits, expected, cells, [new])
    for lane in np.flatnonzero(ON):
        cell = cells[where[lane]]
        assert not rtn or old[lane] == cell, lane
        if cell == expected[lane]:
            cells[where[lane]] = new[lane]
    assert after == cells


def _bits_of(x, bits):
    return int.from_bytes(struct.pack("<f" if bits == 32 else "<d", x), "little")


def _float_of(x, bits):
    return struct.unpack("<f" if bits == 32 else "<d", x.to_bytes(bits // 8, "little"))[0]


@pytest.mark.parametrize("name", FLOAT_ATOMICS)
def test_atomics_of_floats(name):
    stem, _, bits = FLOAT_ATOMICS[name]
    rtn = "_rtn" in name
    rng = np.random.default_rng(8)
    data = (rng.standard_normal(64) * 10.0 ** rng.integers(-9, 9, 64)).tolist()
    data[5], data[20], data[40] = math.inf, math.nan if stem != "add_f" else 1.0, -0.0
    given = [_bits_of(x, bits) for x in data]
    numbers = [_float_of(x, bits) for x in given]
    cells = [0.0, -1.5, 2.0**100, 3.0, -2.0]
    where, old, after = _updated(name, rtn, bits, given, [_bits_of(x, bits) for x in cells])
    for lane in np.flatnonzero(ON):
        cell = cells[where[lane]]
        assert not rtn or _float_of(old[lane], bits) == cell, lane
        total = FLOAT_UPDATES[stem](cell, numbers[lane])  # of singles exact enough to round once
        cells[where[lane]] = float(np.float32(total)) if bits == 32 else total
    assert [_float_of(x, bits) for x in after] == cells


PACKED = {
    f"ds_pk_add{rtn}_{kind}": dtype
    for rtn in ("", "_rtn")
    for kind, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16))
}


@pytest.mark.parametrize("name", PACKED)
def test_atomics_of_pairs_of_halves(name):
    dtype, rtn = PACKED[name], "_rtn" in name
    rng = np.random.default_rng(6)
    data = (rng.integers(-64, 64, (64, 2)) / 8).astype(dtype)  # sums of few are exact
    data[9, 1] = math.inf
    cells = (rng.integers(-64, 64, (CELLS, 2)) / 8).astype(dtype)
    where, old, after = _updated(
        name, rtn, 32, data.view(U32)[:, 0].tolist(), cells.view(U32)[:, 0].tolist()
    )
    for lane in np.flatnonzero(ON):
        cell = cells[where[lane]]
        assert not rtn or old[lane] == int(cell.view(U32)[0]), lane
        total = cell.astype(np.float32) + data[lane].astype(np.float32)
        cells[where[lane]] = total.astype(dtype)
    assert after == cells.view(U32)[:, 0].tolist()


def test_atomics_are_aligned():
    m, _ = _machine()
    put(m, 1, np.full((1, 64), 4, U32))
    for name, aligned in (("ds_add_u32", True), ("ds_add_u64", False)):
        instruction = op(name, v(1), v(2, 2), encoding="ds")
        if aligned:
            execute(m, instruction)
        else:
            with pytest.raises(EmulationError, match="not aligned"):
                execute(m, instruction)


def test_nothing_is_done():
    m, content = _machine()
    registers = m.files["v"].copy()
    execute(m, op("ds_nop", encoding="ds"))
    assert _bytes(m) == content
    assert (m.files["v"] == registers).all()


# ---- all of them ---------------------------------------------------------------------------------


def test_every_row_has_a_test():
    tables = (READS, WRITES, TWO, TRANSPOSING, INTEGER_ATOMICS, FLOAT_ATOMICS, COMPARING, PACKED)
    names = [name for table in tables for name in table]
    names += ["ds_swizzle_b32", "ds_permute_b32", "ds_bpermute_b32", "ds_nop"]
    assert len(names) == len(set(names))
    assert set(names) == set(ds.BUILDERS)


def test_every_row_is_an_instruction():
    known = {form.mnemonic for a in ARCHES for rows in forms(a).values() for form in rows.values()}
    assert [name for name in ds.BUILDERS if name not in known] == []
