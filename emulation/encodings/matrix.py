# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed and matrix instructions, VOP3P: they share an encoding, and two arrangements of it."""

from __future__ import annotations

__all__ = ["MFMA", "MIX", "PACKED"]

PACKED = """
0  pk_mad_i16 pk_mul_lo_u16/w=w,w pk_add_i16/w=w,w pk_sub_i16/w=w,w pk_lshlrev_b16/w=w,w
5  pk_lshrrev_b16/w=w,w pk_ashrrev_i16/w=w,w pk_max_i16/w=w,w pk_min_i16/w=w,w pk_mad_u16
10 pk_add_u16/w=w,w pk_sub_u16/w=w,w pk_max_u16/w=w,w pk_min_u16/w=w,w pk_fma_f16
15 pk_add_f16/h=h,h pk_mul_f16/h=h,h pk_min_f16/h=h,h pk_max_f16/h=h,h
26 dot2_f32_bf16/1=b,b,1@gfx950 pk_minimum3_f16@gfx950 pk_maximum3_f16@gfx950
32 fma_mix_f32 fma_mixlo_f16/1=1,1,1 fma_mixhi_f16/1=1,1,1 dot2_f32_f16/1=h,h,1
38 dot2_i32_i16/1=w,w,1 dot2_u32_u16/1=w,w,1 dot4_i32_i8 dot4_u32_u8 dot8_i32_i4 dot8_u32_u4
48 pk_fma_f32/2=2,2,2@gfx90a.. pk_mul_f32/2=2,2@gfx90a.. pk_add_f32/2=2,2@gfx90a..
51 pk_mov_b32/2=2,2@gfx90a..
"""

# In these the bits of op_sel_hi say that a source is half, and those of neg_hi are absolute.
MIX = frozenset({"v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"})

# ``x``: 4, 6 or 8 registers, as cbsz (first) and blgp (second) say what is in them.
MFMA = """
45 mfma_f32_16x16x128_f8f6f4/4=x,x,4@gfx950 mfma_f32_32x32x64_f8f6f4/16=x,x,16@gfx950
53 mfma_f32_16x16x32_bf16/4=4,4,4@gfx950 mfma_i32_16x16x64_i8/4=4,4,4@gfx950
55 mfma_f32_32x32x16_bf16/16=4,4,16@gfx950 mfma_i32_32x32x32_i8/16=4,4,16@gfx950
57 smfmac_f32_16x16x64_bf16/4=4,8,1@gfx950 smfmac_i32_16x16x128_i8/4=4,8,1@gfx950
59 smfmac_f32_16x16x128_bf8_bf8/4=4,8,1@gfx950 smfmac_f32_16x16x128_bf8_fp8/4=4,8,1@gfx950
61 smfmac_f32_16x16x128_fp8_bf8/4=4,8,1@gfx950
62 mfma_f32_16x16x8_xf32/4=2,2,4@gfx942 mfma_f32_32x32x4_xf32/16=2,2,16@gfx942
64 mfma_f32_32x32x1f32/32=1,1,32@..gfx90a mfma_f32_16x16x1f32/16=1,1,16@..gfx90a
66 mfma_f32_4x4x1f32/4=1,1,4@..gfx90a
67 smfmac_f32_16x16x128_fp8_fp8/4=4,8,1@gfx950
68 mfma_f32_32x32x2f32/16=1,1,16@..gfx90a mfma_f32_16x16x4f32/4=1,1,4@..gfx90a
64 mfma_f32_32x32x1_2b_f32/32=1,1,32@gfx942.. mfma_f32_16x16x1_4b_f32/16=1,1,16@gfx942..
66 mfma_f32_4x4x1_16b_f32/4=1,1,4@gfx942..
68 mfma_f32_32x32x2_f32/16=1,1,16@gfx942.. mfma_f32_16x16x4_f32/4=1,1,4@gfx942..
70 smfmac_f32_32x32x32_bf16/16=4,8,1@gfx950 smfmac_i32_32x32x64_i8/16=4,8,1@gfx950
72 mfma_f32_32x32x4f16/32=2,2,32@..gfx90a mfma_f32_16x16x4f16/16=2,2,16@..gfx90a
74 mfma_f32_4x4x4f16/4=2,2,4@..gfx90a
76 mfma_f32_32x32x8f16/16=2,2,16@..gfx90a mfma_f32_16x16x16f16/4=2,2,4@..gfx90a
72 mfma_f32_32x32x4_2b_f16/32=2,2,32@gfx942.. mfma_f32_16x16x4_4b_f16/16=2,2,16@gfx942..
74 mfma_f32_4x4x4_16b_f16/4=2,2,4@gfx942..
75 smfmac_f32_32x32x64_bf8_bf8/16=4,8,1@gfx950
76 mfma_f32_32x32x8_f16/16=2,2,16@gfx942.. mfma_f32_16x16x16_f16/4=2,2,4@gfx942..
78 smfmac_f32_32x32x64_bf8_fp8/16=4,8,1@gfx950 smfmac_f32_32x32x64_fp8_bf8/16=4,8,1@gfx950
80 mfma_i32_32x32x4i8/32=1,1,32@..gfx90a mfma_i32_16x16x4i8/16=1,1,16@..gfx90a
82 mfma_i32_4x4x4i8/4=1,1,4@..gfx90a
84 mfma_i32_32x32x8i8/16=1,1,16@..gfx90a mfma_i32_16x16x16i8/4=1,1,4@..gfx90a
80 mfma_i32_32x32x4_2b_i8/32=1,1,32@gfx942.. mfma_i32_16x16x4_4b_i8/16=1,1,16@gfx942..
82 mfma_i32_4x4x4_16b_i8/4=1,1,4@gfx942..
83 smfmac_f32_32x32x64_fp8_fp8/16=4,8,1@gfx950
84 mfma_f32_16x16x32_f16/4=4,4,4@gfx950 mfma_f32_32x32x16_f16/16=4,4,16@gfx950
86 mfma_i32_32x32x16_i8/16=2,2,16@gfx942.. mfma_i32_16x16x32_i8/4=2,2,4@gfx942..
88 accvgpr_read_b32/1=1 accvgpr_write_b32/1=1
90 smfmac_f32_16x16x64_f16/4=4,8,1@gfx950 smfmac_f32_32x32x32_f16/16=4,8,1@gfx950
93 mfma_f32_32x32x4_2b_bf16/32=2,2,32@gfx942.. mfma_f32_16x16x4_4b_bf16/16=2,2,16@gfx942..
95 mfma_f32_4x4x4_16b_bf16/4=2,2,4@gfx942.. mfma_f32_32x32x8_bf16/16=2,2,16@gfx942..
97 mfma_f32_16x16x16_bf16/4=2,2,4@gfx942..
98 smfmac_f32_16x16x32_f16/4=2,4,1@gfx942.. - smfmac_f32_32x32x16_f16/16=2,4,1@gfx942.. -
102 smfmac_f32_16x16x32_bf16/4=2,4,1@gfx942.. - smfmac_f32_32x32x16_bf16/16=2,4,1@gfx942.. -
106 smfmac_i32_16x16x64_i8/4=2,4,1@gfx942.. - smfmac_i32_32x32x32_i8/16=2,4,1@gfx942.. -
99 mfma_f32_32x32x4bf16_1k/32=2,2,32@gfx90a mfma_f32_16x16x4bf16_1k/16=2,2,16@gfx90a
101 mfma_f32_4x4x4bf16_1k/4=2,2,4@gfx90a mfma_f32_32x32x8bf16_1k/16=2,2,16@gfx90a
103 mfma_f32_16x16x16bf16_1k/4=2,2,4@gfx90a
104 mfma_f32_32x32x2bf16/32=1,1,32@..gfx90a mfma_f32_16x16x2bf16/16=1,1,16@..gfx90a -
107 mfma_f32_4x4x2bf16/4=1,1,4@..gfx90a mfma_f32_32x32x4bf16/16=1,1,16@..gfx90a
109 mfma_f32_16x16x8bf16/4=1,1,4@..gfx90a
110 mfma_f64_16x16x4f64/8=2,2,8@gfx90a mfma_f64_4x4x4f64/2=2,2,2@gfx90a
110 mfma_f64_16x16x4_f64/8=2,2,8@gfx942.. mfma_f64_4x4x4_4b_f64/2=2,2,2@gfx942..
112 mfma_f32_16x16x32_bf8_bf8/4=2,2,4@gfx942.. mfma_f32_16x16x32_bf8_fp8/4=2,2,4@gfx942..
114 mfma_f32_16x16x32_fp8_bf8/4=2,2,4@gfx942.. mfma_f32_16x16x32_fp8_fp8/4=2,2,4@gfx942..
116 mfma_f32_32x32x16_bf8_bf8/16=2,2,16@gfx942.. mfma_f32_32x32x16_bf8_fp8/16=2,2,16@gfx942..
118 mfma_f32_32x32x16_fp8_bf8/16=2,2,16@gfx942.. mfma_f32_32x32x16_fp8_fp8/16=2,2,16@gfx942..
120 smfmac_f32_16x16x64_bf8_bf8/4=2,4,1@gfx942.. smfmac_f32_16x16x64_bf8_fp8/4=2,4,1@gfx942..
122 smfmac_f32_16x16x64_fp8_bf8/4=2,4,1@gfx942.. smfmac_f32_16x16x64_fp8_fp8/4=2,4,1@gfx942..
124 smfmac_f32_32x32x32_bf8_bf8/16=2,4,1@gfx942.. smfmac_f32_32x32x32_bf8_fp8/16=2,4,1@gfx942..
126 smfmac_f32_32x32x32_fp8_bf8/16=2,4,1@gfx942.. smfmac_f32_32x32x32_fp8_fp8/16=2,4,1@gfx942..
"""
