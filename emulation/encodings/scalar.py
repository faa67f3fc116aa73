# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scalar instructions: SOP2, SOPK, SOP1, SOPC, SOPP and SMEM."""

from __future__ import annotations

__all__ = ["SMEM", "SOP1", "SOP2", "SOPC", "SOPK", "SOPP"]

SOP2 = """
0  add_u32 sub_u32 add_i32 sub_i32 addc_u32 subb_u32 min_i32 min_u32 max_i32 max_u32
10 cselect_b32 cselect_b64 and_b32 and_b64 or_b32 or_b64 xor_b32 xor_b64 andn2_b32 andn2_b64
20 orn2_b32 orn2_b64 nand_b32 nand_b64 nor_b32 nor_b64 xnor_b32 xnor_b64
28 lshl_b32 lshl_b64/2=2,1 lshr_b32 lshr_b64/2=2,1 ashr_i32 ashr_i64/2=2,1
34 bfm_b32 bfm_b64/2=1,1 mul_i32 bfe_u32 bfe_i32 bfe_u64/2=2,1 bfe_i64/2=2,1
41 cbranch_g_fork/=2,2 absdiff_i32 rfe_restore_b64/=2,1 mul_hi_u32 mul_hi_i32
46 lshl1_add_u32 lshl2_add_u32 lshl3_add_u32 lshl4_add_u32
50 pack_ll_b32_b16/1=1,1 pack_lh_b32_b16/1=1,1 pack_hh_b32_b16/1=1,1
"""

# ``i``: the 16 bits of the instruction, signed; of unsigned comparisons, unsigned.
SOPK = """
0  movk_i32/1=i cmovk_i32/1=i
2  cmpk_eq_i32/=1,i cmpk_lg_i32/=1,i cmpk_gt_i32/=1,i cmpk_ge_i32/=1,i cmpk_lt_i32/=1,i
7  cmpk_le_i32/=1,i
8  cmpk_eq_u32/=1,i cmpk_lg_u32/=1,i cmpk_gt_u32/=1,i cmpk_ge_u32/=1,i cmpk_lt_u32/=1,i
13 cmpk_le_u32/=1,i
14 addk_i32/1=i mulk_i32/1=i cbranch_i_fork/=2,i getreg_b32/1=i setreg_b32/=i,1
20 setreg_imm32_b32/=i,k call_b64/2=i
"""

SOP1 = """
0  mov_b32 mov_b64 cmov_b32 cmov_b64 not_b32 not_b64 wqm_b32 wqm_b64 brev_b32 brev_b64
10 bcnt0_i32_b32 bcnt0_i32_b64 bcnt1_i32_b32 bcnt1_i32_b64 ff0_i32_b32 ff0_i32_b64
16 ff1_i32_b32 ff1_i32_b64 flbit_i32_b32 flbit_i32_b64 flbit_i32 flbit_i32_i64
22 sext_i32_i8 sext_i32_i16/1=1 bitset0_b32 bitset0_b64/2=1 bitset1_b32 bitset1_b64/2=1
28 getpc_b64/2= setpc_b64/=2 swappc_b64 rfe_b64/=2
32 and_saveexec_b64 or_saveexec_b64 xor_saveexec_b64 andn2_saveexec_b64 orn2_saveexec_b64
37 nand_saveexec_b64 nor_saveexec_b64 xnor_saveexec_b64 quadmask_b32 quadmask_b64
42 movrels_b32 movrels_b64 movreld_b32 movreld_b64 cbranch_join/=2 - abs_i32 -
50 set_gpr_idx_idx/=1 andn1_saveexec_b64 orn1_saveexec_b64 andn1_wrexec_b64
54 andn2_wrexec_b64 bitreplicate_b64_b32
"""

SOPC = """
0  cmp_eq_i32/=1,1 cmp_lg_i32/=1,1 cmp_gt_i32/=1,1 cmp_ge_i32/=1,1 cmp_lt_i32/=1,1
5  cmp_le_i32/=1,1
6  cmp_eq_u32/=1,1 cmp_lg_u32/=1,1 cmp_gt_u32/=1,1 cmp_ge_u32/=1,1 cmp_lt_u32/=1,1
11 cmp_le_u32/=1,1
12 bitcmp0_b32/=1,1 bitcmp1_b32/=1,1 bitcmp0_b64/=2,1 bitcmp1_b64/=2,1
16 setvskip/=1,1 set_gpr_idx_on/=1,i cmp_eq_u64/=2,2 cmp_lg_u64/=2,2
"""

SOPP = """
0  nop/=i endpgm/= branch/=i wakeup/= cbranch_scc0/=i cbranch_scc1/=i cbranch_vccz/=i
7  cbranch_vccnz/=i cbranch_execz/=i cbranch_execnz/=i barrier/= setkill/=i waitcnt/=i
13 sethalt/=i sleep/=i setprio/=i sendmsg/=i sendmsghalt/=i trap/=i icache_inv/=
20 incperflevel/=i decperflevel/=i ttracedata/= cbranch_cdbgsys/=i cbranch_cdbguser/=i
25 cbranch_cdbgsys_or_user/=i cbranch_cdbgsys_and_user/=i endpgm_saved/=
28 set_gpr_idx_off/= set_gpr_idx_mode/=i endpgm_ordered_ps_done/=
"""

# Sources: the base address (2) or the buffer's descriptor (4), then the offset.
SMEM = """
0  load_dword/1=2,i load_dwordx2/2=2,i load_dwordx4/4=2,i load_dwordx8/8=2,i load_dwordx16/16=2,i
5  scratch_load_dword/1=2,i scratch_load_dwordx2/2=2,i scratch_load_dwordx4/4=2,i
8  buffer_load_dword/1=4,i buffer_load_dwordx2/2=4,i buffer_load_dwordx4/4=4,i
11 buffer_load_dwordx8/8=4,i buffer_load_dwordx16/16=4,i
16 store_dword/=1,2,i store_dwordx2/=2,2,i store_dwordx4/=4,2,i
21 scratch_store_dword/=1,2,i scratch_store_dwordx2/=2,2,i scratch_store_dwordx4/=4,2,i
24 buffer_store_dword/=1,4,i buffer_store_dwordx2/=2,4,i buffer_store_dwordx4/=4,4,i
32 dcache_inv/= dcache_wb/= dcache_inv_vol/= dcache_wb_vol/= memtime/2= memrealtime/2=
40 dcache_discard/=2,i dcache_discard_x2/=2,i
"""
