# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory instructions: DS, and what FLAT, GLOBAL, SCRATCH and MUBUF have in common or alone."""

from __future__ import annotations

__all__ = ["ALONE", "CACHE", "DS", "SHARED"]


def _runs(first: int, returning: int, names: str) -> str:
    """Return lines of LDS operations that exist without and with a result; ``/2``: two values."""
    lines = []
    for at, result in ((first, False), (returning, True)):
        words = []
        for text in names.split():
            name, _, operands = text.partition("/")
            stem, _, kind = name.rpartition("_")
            width = "2" if kind in ("u64", "i64", "b64", "f64") else "1"
            ins = ",".join(["1", *([width] * int(operands or 1))])
            words.append(f"{stem}_rtn_{kind}/{width}={ins}" if result else f"{name}/={ins}")
        lines.append(f"{at} {' '.join(words)}")
    return "\n".join(lines)


_ATOMS = (
    "add_u{0} sub_u{0} rsub_u{0} inc_u{0} dec_u{0} min_i{0} max_i{0} min_u{0} max_u{0} "
    "and_b{0} or_b{0} xor_b{0} mskor_b{0}/2"
)
_SWAPS = "cmpst_b{0}/2 cmpst_f{0}/2 min_f{0} max_f{0}"

# The first source is the address, a 32-bit register.
DS = "\n".join(
    (
        _runs(0, 32, _ATOMS.format(32)),
        _runs(16, 48, _SWAPS.format(32)),
        _runs(64, 96, _ATOMS.format(64)),
        _runs(80, 112, _SWAPS.format(64)),
        """
13 write_b32/=1,1 write2_b32/=1,1,1 write2st64_b32/=1,1,1
20 nop/= add_f32/=1,1
23 pk_add_f16/=1,1@gfx942.. pk_add_bf16/=1,1@gfx942..
29 write_addtid_b32/=1 write_b8/=1,1 write_b16/=1,1
45 wrxchg_rtn_b32/1=1,1 wrxchg2_rtn_b32/2=1,1,1 wrxchg2st64_rtn_b32/2=1,1,1
52 wrap_rtn_b32/1=1,1,1 add_rtn_f32/1=1,1 read_b32/1=1 read2_b32/2=1 read2st64_b32/2=1
57 read_i8/1=1 read_u8/1=1 read_i16/1=1 read_u16/1=1 swizzle_b32/1=1
62 permute_b32/1=1,1 bpermute_b32/1=1,1
77 write_b64/=1,2 write2_b64/=1,2,2 write2st64_b64/=1,2,2
84 write_b8_d16_hi/=1,1 write_b16_d16_hi/=1,1 read_u8_d16/1=1 read_u8_d16_hi/1=1
88 read_i8_d16/1=1 read_i8_d16_hi/1=1 read_u16_d16/1=1 read_u16_d16_hi/1=1
92 add_f64/=1,2@gfx90a..
109 wrxchg_rtn_b64/2=1,2 wrxchg2_rtn_b64/4=1,2,2 wrxchg2st64_rtn_b64/4=1,2,2
118 read_b64/2=1 read2_b64/4=1 read2st64_b64/4=1
124 add_rtn_f64/2=1,2@gfx90a..
126 condxchg32_rtn_b64/2=1,2
182 read_addtid_b32/1=
183 pk_add_rtn_f16/1=1,1@gfx942.. pk_add_rtn_bf16/1=1,1@gfx942..
189 consume/1= append/1=
222 write_b96/=1,3 write_b128/=1,4
224 read_b64_tr_b4/2=1@gfx950 read_b96_tr_b6/3=1@gfx950 read_b64_tr_b8/2=1@gfx950
227 read_b64_tr_b16/2=1@gfx950
254 read_b96/3=1 read_b128/4=1
""",
    )
)

_X2 = (
    "swap_x2 cmpswap_x2 add_x2 sub_x2 smin_x2 umin_x2 smax_x2 umax_x2 and_x2 or_x2 xor_x2 "
    "inc_x2 dec_x2"
)
_ONE = _X2.replace("_x2", "")


def _atomics(first: int, names: str, width: int) -> str:
    """Return a line of atomics; comparing ones have two values as their source."""
    return f"{first} " + " ".join(
        f"atomic_{n}/{width}={2 * width if 'cmpswap' in n else width}" for n in names.split()
    )


# Loads have a destination, stores a source and atomics both; addresses are not listed.
SHARED = """
16 load_ubyte/1= load_sbyte/1= load_ushort/1= load_sshort/1= load_dword/1= load_dwordx2/2=
22 load_dwordx3/3= load_dwordx4/4=
24 store_byte/=1 store_byte_d16_hi/=1 store_short/=1 store_short_d16_hi/=1 store_dword/=1
29 store_dwordx2/=2 store_dwordx3/=3 store_dwordx4/=4
32 load_ubyte_d16/1= load_ubyte_d16_hi/1= load_sbyte_d16/1= load_sbyte_d16_hi/1=
36 load_short_d16/1= load_short_d16_hi/1=
"""

_ATOMICS = f"""
{_atomics(64, _ONE, 1)}
{_atomics(96, _X2, 2)}
79 atomic_add_f64/2=2@gfx90a.. atomic_min_f64/2=2@gfx90a.. atomic_max_f64/2=2@gfx90a..
"""
_IN_LDS = """
38 load_lds_ubyte/=@gfx942.. load_lds_sbyte/=@gfx942.. load_lds_ushort/=@gfx942..
41 load_lds_sshort/=@gfx942.. load_lds_dword/=@gfx942..
"""

ALONE = {
    "flat": _ATOMICS
    + """
77 atomic_add_f32/1=1@gfx942.. atomic_pk_add_f16/1=1@gfx942..
82 atomic_pk_add_bf16/1=1@gfx942..
""",
    "global": _ATOMICS
    + _IN_LDS
    + """
77 atomic_add_f32/1=1 atomic_pk_add_f16/1=1
82 atomic_pk_add_bf16/1=1@gfx942..
125 load_lds_dwordx4/=@gfx950 load_lds_dwordx3/=@gfx950
""",
    "scratch": _IN_LDS,
    "buffer": _ATOMICS
    + """
0  load_format_x/1= load_format_xy/2= load_format_xyz/3= load_format_xyzw/4=
4  store_format_x/=1 store_format_xy/=2 store_format_xyz/=3 store_format_xyzw/=4
8  load_format_d16_x/1= load_format_d16_xy/1= load_format_d16_xyz/2= load_format_d16_xyzw/2=
12 store_format_d16_x/=1 store_format_d16_xy/=1 store_format_d16_xyz/=2 store_format_d16_xyzw/=2
38 load_format_d16_hi_x/1= store_format_d16_hi_x/=1
77 atomic_add_f32/1=1 atomic_pk_add_f16/1=1
82 atomic_pk_add_bf16/1=1@gfx950
""",
}  # by the word that names begin with

# They stand in the buffer encoding, and have no operands.
CACHE = """
40 wbl2/=@gfx90a.. invl2/=@gfx90a
41 inv/=@gfx942..
62 wbinvl1/=@..gfx90a wbinvl1_vol/=@..gfx90a
"""
