# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vector instructions: VOP1, VOP2, VOPC, and what VOP3 has beside their long forms."""

from __future__ import annotations

__all__ = ["FIRST_IN_VOP3", "SHORT_ONLY", "VOP1", "VOP2", "VOP3", "VOPC"]

VOP1 = """
0  nop/= mov_b32 readfirstlane_b32/s1=1 cvt_i32_f64 cvt_f64_i32 cvt_f32_i32 cvt_f32_u32
7  cvt_u32_f32 cvt_i32_f32 - cvt_f16_f32 cvt_f32_f16 cvt_rpi_i32_f32 cvt_flr_i32_f32
14 cvt_off_f32_i4 cvt_f32_f64 cvt_f64_f32 cvt_f32_ubyte0/1=1 cvt_f32_ubyte1/1=1
19 cvt_f32_ubyte2/1=1 cvt_f32_ubyte3/1=1 cvt_u32_f64 cvt_f64_u32 trunc_f64 ceil_f64 rndne_f64
26 floor_f64 fract_f32 trunc_f32 ceil_f32 rndne_f32 floor_f32 exp_f32 log_f32 rcp_f32
35 rcp_iflag_f32 rsq_f32 rcp_f64 rsq_f64 sqrt_f32 sqrt_f64 sin_f32 cos_f32 not_b32 bfrev_b32
45 ffbh_u32 ffbl_b32 ffbh_i32 frexp_exp_i32_f64 frexp_mant_f64 fract_f64 frexp_exp_i32_f32
52 frexp_mant_f32 clrexcp/= - screen_partition_4se_b32 mov_b64@gfx942.. cvt_f16_u16
58 cvt_f16_i16 cvt_u16_f16 cvt_i16_f16 rcp_f16 sqrt_f16 rsq_f16 log_f16 exp_f16
66 frexp_mant_f16 frexp_exp_i16_f16 floor_f16 ceil_f16 trunc_f16 rndne_f16 fract_f16
73 sin_f16 cos_f16 exp_legacy_f32 log_legacy_f32 cvt_norm_i16_f16 cvt_norm_u16_f16
79 sat_pk_u8_i16/1=1 - swap_b32
84 cvt_f32_fp8@gfx942.. cvt_f32_bf8@gfx942.. cvt_pk_f32_fp8/2=1@gfx942..
87 cvt_pk_f32_bf8/2=1@gfx942.. prng_b32@gfx950 permlane16_swap_b32@gfx950
90 permlane32_swap_b32@gfx950 cvt_f32_bf16@gfx950
"""

VOP2 = """
0  cndmask_b32/1=1,1,s2 add_f32 sub_f32 subrev_f32 -
4  mul_legacy_f32@gfx908
4  fmac_f64@gfx90a..
5  mul_f32 mul_i32_i24 mul_hi_i32_i24 mul_u32_u24 mul_hi_u32_u24 min_f32 max_f32 min_i32
13 max_i32 min_u32 max_u32 lshrrev_b32 ashrrev_i32 lshlrev_b32 and_b32 or_b32 xor_b32
22 mac_f32@..gfx90a madmk_f32/1=1,k,1@..gfx90a madak_f32/1=1,1,k@..gfx90a
22 dot2c_f32_bf16/1=1,1@gfx950
23 fmamk_f32/1=1,k,1@gfx942.. fmaak_f32/1=1,1,k@gfx942..
25 add_co_u32/1,s2=1,1 sub_co_u32/1,s2=1,1 subrev_co_u32/1,s2=1,1
28 addc_co_u32/1,s2=1,1,s2 subb_co_u32/1,s2=1,1,s2 subbrev_co_u32/1,s2=1,1,s2
31 add_f16 sub_f16 subrev_f16 mul_f16 mac_f16 madmk_f16/h=h,k,h madak_f16/h=h,h,k add_u16 sub_u16
40 subrev_u16 mul_lo_u16 lshlrev_b16 lshrrev_b16 ashrrev_i16 max_f16 min_f16 max_u16 max_i16
49 min_u16 min_i16 ldexp_f16/h=h,w add_u32 sub_u32 subrev_u32 dot2c_f32_f16/1=1,1
56 dot2c_i32_i16/1=1,1
57 dot4c_i32_i8 dot8c_i32_i4 fmac_f32 pk_fmac_f16/1=1,1 xnor_b32
"""

# Sixteen relations between floats, eight between integers; cmpx writes exec too.
_FLOAT = "f lt eq le gt lg ge o u nge nlg ngt nle neq nlt tru".split()  # noqa: SIM905
_INTEGER = "f lt eq le gt ne ge t".split()  # noqa: SIM905


_BOTH = ("cmp", "cmpx")


def _compare() -> str:
    """Return the table of comparisons: runs of relations for each type, without and with x."""
    lines = [
        f"{first} " + " ".join(f"{cmp}_class_{kind}/s2={ins}" for cmp in _BOTH)
        for first, kind, ins in ((16, "f32", "1,1"), (18, "f64", "2,1"), (20, "f16", "h,1"))
    ]
    runs = [(32, "f16", "h"), (64, "f32", "1"), (96, "f64", "2")]
    runs += [(160, "i16", "w"), (168, "u16", "w"), (192, "i32", "1"), (200, "u32", "1")]
    runs += [(224, "i64", "2"), (232, "u64", "2")]
    for first, kind, width in runs:
        for i, cmp in enumerate(_BOTH):
            relations = _FLOAT if kind[0] == "f" else _INTEGER
            names = [f"{cmp}_{r}_{kind}/s2={width},{width}" for r in relations]
            lines.append(f"{first + 16 * i} {' '.join(names)}")
    return "\n".join(lines)


VOPC = _compare()

# Where the short encodings' opcodes begin in VOP3, and which of them it lacks.
FIRST_IN_VOP3 = {"vopc": 0, "vop2": 256, "vop1": 320}
_SHORT_ONLY = (
    "v_madmk_f32 v_madak_f32 v_fmamk_f32 v_fmaak_f32 v_madmk_f16 v_madak_f16 v_swap_b32 "
    "v_accvgpr_mov_b32 v_readfirstlane_b32"
)
SHORT_ONLY = frozenset(_SHORT_ONLY.split())

VOP3 = """
448 mad_legacy_f32@..gfx90a mad_f32@..gfx90a
450 mad_i32_i24/1=1,1,1 mad_u32_u24/1=1,1,1 cubeid_f32 cubesc_f32 cubetc_f32 cubema_f32 bfe_u32
457 bfe_i32 bfi_b32 fma_f32 fma_f64 lerp_u8 alignbit_b32 alignbyte_b32 min3_f32 min3_i32
466 min3_u32 max3_f32 max3_i32 max3_u32 med3_f32 med3_i32 med3_u32 sad_u8 sad_hi_u8
475 sad_u16/1=1,1,1 sad_u32 cvt_pk_u8_f32/1=1,1,1 div_fixup_f32 div_fixup_f64
480 div_scale_f32/1,s2=1,1,1 div_scale_f64/2,s2=2,2,2 div_fmas_f32 div_fmas_f64 msad_u8
485 qsad_pk_u16_u8/2=2,1,2 mqsad_pk_u16_u8/2=2,1,2 mqsad_u32_u8/4=2,1,4
488 mad_u64_u32/2,s2=1,1,2 mad_i64_i32/2,s2=1,1,2 mad_legacy_f16 mad_legacy_u16 mad_legacy_i16
493 perm_b32 fma_legacy_f16 div_fixup_legacy_f16 cvt_pkaccum_u8_f32/1=1,1,1
497 mad_u32_u16/1=w,w,1 mad_i32_i16/1=w,w,1 xad_u32 min3_f16 min3_i16 min3_u16 max3_f16 max3_i16
505 max3_u16 med3_f16 med3_i16 med3_u16 lshl_add_u32 add_lshl_u32 add3_u32 lshl_or_b32
513 and_or_b32 or3_b32 mad_f16 mad_u16 mad_i16 fma_f16 div_fixup_f16
520 lshl_add_u64/2=2,1,2@gfx942..
563 bitop3_b16@gfx950 bitop3_b32@gfx950
565 cvt_scalef32_pk_fp8_f32/1=1,1,1@gfx950 cvt_scalef32_pk_bf8_f32/1=1,1,1@gfx950
567 cvt_scalef32_sr_fp8_f32/1=1,1,1@gfx950 cvt_scalef32_sr_bf8_f32/1=1,1,1@gfx950
569 cvt_scalef32_pk_f32_fp8/2=1,1@gfx950 cvt_scalef32_pk_f32_bf8/2=1,1@gfx950
571 cvt_scalef32_f32_fp8/1=1,1@gfx950 cvt_scalef32_f32_bf8/1=1,1@gfx950
573 cvt_scalef32_pk_fp4_f32/1=1,1,1@gfx950 cvt_scalef32_sr_pk_fp4_f32/1=2,1,1@gfx950
575 cvt_scalef32_pk_f32_fp4/2=1,1@gfx950
576 cvt_scalef32_pk_fp8_f16/1=1,1@gfx950 cvt_scalef32_pk_bf8_f16/1=1,1@gfx950
578 cvt_scalef32_sr_fp8_f16/1=1,1,1@gfx950 cvt_scalef32_sr_bf8_f16/1=1,1,1@gfx950
580 cvt_scalef32_pk_fp8_bf16/1=1,1@gfx950 cvt_scalef32_pk_bf8_bf16/1=1,1@gfx950
582 cvt_scalef32_sr_fp8_bf16/1=1,1,1@gfx950 cvt_scalef32_sr_bf8_bf16/1=1,1,1@gfx950
584 cvt_scalef32_pk_f16_fp8/1=1,1@gfx950 cvt_scalef32_pk_f16_bf8/1=1,1@gfx950
586 cvt_scalef32_f16_fp8/1=1,1@gfx950 cvt_scalef32_f16_bf8/1=1,1@gfx950
588 cvt_scalef32_pk_fp4_f16/1=1,1@gfx950 cvt_scalef32_pk_fp4_bf16/1=1,1@gfx950
590 cvt_scalef32_sr_pk_fp4_f16/1=1,1,1@gfx950 cvt_scalef32_sr_pk_fp4_bf16/1=1,1,1@gfx950
592 cvt_scalef32_pk_f16_fp4/1=1,1@gfx950 cvt_scalef32_pk_bf16_fp4/1=1,1@gfx950
594 cvt_scalef32_2xpk16_fp6_f32/6=16,16,1@gfx950 cvt_scalef32_2xpk16_bf6_f32/6=16,16,1@gfx950
596 cvt_scalef32_sr_pk32_fp6_f32/6=32,1,1@gfx950 cvt_scalef32_sr_pk32_bf6_f32/6=32,1,1@gfx950
598 cvt_scalef32_pk32_f32_fp6/32=6,1@gfx950 cvt_scalef32_pk32_f32_bf6/32=6,1@gfx950
600 cvt_scalef32_pk32_fp6_f16/6=16,1@gfx950 cvt_scalef32_pk32_fp6_bf16/6=16,1@gfx950
602 cvt_scalef32_pk32_bf6_f16/6=16,1@gfx950 cvt_scalef32_pk32_bf6_bf16/6=16,1@gfx950
604 cvt_scalef32_sr_pk32_fp6_f16/6=16,1,1@gfx950 cvt_scalef32_sr_pk32_fp6_bf16/6=16,1,1@gfx950
606 cvt_scalef32_sr_pk32_bf6_f16/6=16,1,1@gfx950 cvt_scalef32_sr_pk32_bf6_bf16/6=16,1,1@gfx950
608 cvt_scalef32_pk32_f16_fp6/16=6,1@gfx950 cvt_scalef32_pk32_bf16_fp6/16=6,1@gfx950
610 cvt_scalef32_pk32_f16_bf6/16=6,1@gfx950 cvt_scalef32_pk32_bf16_bf6/16=6,1@gfx950
613 ashr_pk_i8_i32/1=1,1,1@gfx950 ashr_pk_u8_i32/1=1,1,1@gfx950 cvt_pk_f16_f32/1=1,1@gfx950
616 cvt_pk_bf16_f32/1=1,1@gfx950 cvt_scalef32_pk_bf16_fp8/1=1,1@gfx950
618 cvt_scalef32_pk_bf16_bf8/1=1,1@gfx950
640 add_f64/2=2,2 mul_f64/2=2,2 min_f64/2=2,2 max_f64/2=2,2 ldexp_f64/2=2,1 mul_lo_u32/1=1,1
646 mul_hi_u32/1=1,1 mul_hi_i32/1=1,1 ldexp_f32/1=1,1 readlane_b32/s1=1,1 writelane_b32/1=1,1
651 bcnt_u32_b32/1=1,1 mbcnt_lo_u32_b32/1=1,1 mbcnt_hi_u32_b32/1=1,1 - lshlrev_b64/2=1,2
656 lshrrev_b64/2=1,2 ashrrev_i64/2=1,2 trig_preop_f64/2=2,1 bfm_b32/1=1,1
660 cvt_pknorm_i16_f32/1=1,1 cvt_pknorm_u16_f32/1=1,1 cvt_pkrtz_f16_f32/1=1,1
663 cvt_pk_u16_u32/1=1,1 cvt_pk_i16_i32/1=1,1 cvt_pknorm_i16_f16/1=h,h
666 cvt_pknorm_u16_f16/1=h,h - add_i32/1=1,1 sub_i32/1=1,1 add_i16/w=w,w sub_i16/w=w,w
672 pack_b32_f16/1=h,h mul_legacy_f32/1=1,1@gfx90a.. cvt_pk_fp8_f32/1=1,1@gfx942..
675 cvt_pk_bf8_f32/1=1,1@gfx942.. cvt_sr_fp8_f32/1=1,1@gfx942.. cvt_sr_bf8_f32/1=1,1@gfx942..
678 cvt_sr_f16_f32/1=1,1@gfx950 cvt_sr_bf16_f32/1=1,1@gfx950
680 minimum3_f32@gfx950 maximum3_f32@gfx950
"""
