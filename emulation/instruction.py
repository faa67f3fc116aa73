# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a decoded instruction is: the one form that the decoder makes and the execution reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Instruction", "Operand"]


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of an instruction, as its assembly text names it.

    Everything scalar that can be written lies in one file ``"s"`` of 128 registers, under the
    number that encodings give it; there `name` is set for all but the plain ones:

    ===========  ==================================================================
    index        name
    ===========  ==================================================================
    0 to 101     "" (``s0`` to ``s101``)
    102, 103     flat_scratch_lo, flat_scratch_hi; as a pair flat_scratch
    104, 105     xnack_mask_lo, xnack_mask_hi; as a pair xnack_mask
    106, 107     vcc_lo, vcc_hi; as a pair vcc
    108 to 123   ttmp0 to ttmp15
    124          m0
    126, 127     exec_lo, exec_hi; as a pair exec
    ===========  ==================================================================

    What has no such place is ``"special"``: ``scc``, ``vccz``, ``execz``, the address bases
    ``src_shared_base``, ``src_shared_limit``, ``src_private_base``, ``src_private_limit``,
    ``src_pops_exiting_wave_id``, ``src_lds_direct``, ``off`` (no address register), and texts of
    whole fields such as ``hwreg(HW_REG_MODE, 4, 2)`` or ``sendmsg(MSG_INTERRUPT)``, whose parts
    stand in the modifiers of the instruction.

    Attributes
    ----------
    file : str
        ``"v"`` (vector), ``"a"`` (accumulation), ``"s"``, ``"const"`` or ``"special"``.
    index : int
        The first register; 0 for constants and specials.
    count : int
        How many 32-bit registers the operand spans; for constants, how many it stands for: 2
        where the operation is on 64 bits.  Values of 16 bits or fewer take 1.
    bits : int
        Constants only.  An integer or literal as an unsigned 32-bit pattern (-4 is 0xfffffffc);
        a float constant as its *single precision* pattern.
    name : str
        The canonical text of constants (``1.0``, ``0.15915494``, ``0x3f800000``, ``-4``), and of
        the registers and specials above.
    neg, abs, sext : bool
        Input modifiers: the sign is flipped after the absolute value was taken; SDWA's sign
        extension of the selected part.
    kind : str
        Constants only, as it decides how they widen or narrow.  ``"integer"``: encoded in the
        instruction, sign-extended to any width, also as the bit pattern of a float operation.
        ``"float"``: one of the nine float constants, which takes the format of the operation
        (half, bfloat16, single, double); in an integer operation its pattern of that width.
        ``"literal"``: the 32 bits that follow the instruction; the low bits for narrower
        operands, the *high* half of a double, for 64-bit integers extended (with the sign where
        the type is i64, else with zeros).
    """

    file: str
    index: int = 0
    count: int = 1
    bits: int = 0
    name: str = ""
    neg: bool = False
    abs: bool = False
    sext: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One decoded instruction.

    Operands come in the order of LLVM's assembly text, destinations first, and are those that
    the text shows: the ``vcc`` of ``v_add_co_u32_e32`` is one, the ``scc`` that scalar compares
    write, the ``vcc`` that ``v_div_fmas`` reads and the ``exec`` of everything are not.
    Instructions whose text names the destination once but reads it too (``v_fmac_f32``,
    ``v_mov_b32`` with DPP, SDWA's ``UNUSED_PRESERVE``, ``s_addk_i32``, ``s_cmovk_i32``) have it
    once.  Loads into LDS (modifier ``lds``) and atomics without ``glc``/``sc0`` have no
    destination.

    Immediates of the text are constants of kind ``"integer"`` (``s_nop 0``, ``s_movk_i32``,
    ``s_setprio``) with the sign that the operation gives them.  The offset of scalar loads is
    the last operand, a constant or a register; where both are given it is the register, and the
    modifier ``offset`` is added.  The two constants of ``v_madmk``/``v_fmaak`` and so on are
    literals.

    Attributes
    ----------
    address, size : int
        Bytes, from the start of the loaded code object.
    mnemonic : str
        LLVM's, without ``_e32``, ``_e64``, ``_sdwa`` and ``_dpp``.
    encoding : str
        ``sop1 sop2 sopk sopc sopp smem vop1 vop2 vopc vop3 vop3p mfma sdwa dpp ds flat global
        scratch mubuf``.  ``vop3`` has both the forms A and B; ``mfma`` also the register moves
        ``v_accvgpr_read``, ``v_accvgpr_write`` and the sparse forms (``v_smfmac``).
    operands : tuple of Operand
    modifiers : mapping of str to int, str or tuple of int
        Never changed after it was made.  A name that is not there has its default, given below.

        ========================  ===========================================================
        offset                    bytes, signed for flat, global, scratch and scalar loads;
                                  unsigned for ds and mubuf; 0
        offset0, offset1          ``ds_read2`` and kin, in elements (x 64 of them for
                                  ``st64``); 0
        gds, lds, offen, idxen,   1 where set; else 0
        glc, slc, scc, sc0, sc1,
        nt, clamp
        omod                      1: times 2, 2: times 4, 3: by 2; 0
        op_sel                    one bit per source.  vop3p: always there.  vop3: sources,
                                  then the destination; there if not all 0
        op_sel_hi, neg_lo,        one bit per source; always there in vop3p
        neg_hi
        bitop3                    ``v_bitop3``: the truth table, 8 bits; always there
                                  ``v_mfma_scale``: which byte of the two scales, as two bits of
                                  op_sel_hi and op_sel; three entries, the last one 0
        cbsz, abid, blgp          mfma; 0.  In double precision blgp is negation, as
                                  ``neg`` bits of the three sources, and so printed
        dst_sel, src0_sel,        ``BYTE_0`` to ``BYTE_3``, ``WORD_0``, ``WORD_1``,
        src1_sel                  ``DWORD``; there if the text shows them
        dst_unused                ``UNUSED_PAD``, ``UNUSED_SEXT``, ``UNUSED_PRESERVE``
        quad_perm                 4 lanes; dpp has exactly one of this and the next
        row_shl, row_shr,         a count (``row_mirror``, ``row_half_mirror``: 1)
        row_ror, wave_shl,
        wave_rol, wave_shr,
        wave_ror, row_mirror,
        row_half_mirror,
        row_bcast, row_newbcast
        row_mask, bank_mask       dpp, always there
        bound_ctrl                1: lanes without a source read 0; else 0 (they keep the
                                  destination)
        vmcnt, expcnt, lgkmcnt    ``s_waitcnt``, all three always; 63, 7 and 15 mean no wait
        target                    branches: address; byte address like `address`
        hwreg                     ``s_getreg``, ``s_setreg``: (id, first bit, width)
        msg                       ``s_sendmsg``: the immediate
        ========================  ===========================================================
    """

    address: int
    size: int
    mnemonic: str
    encoding: str
    operands: tuple[Operand, ...]
    modifiers: Mapping[str, int | str | tuple[int, ...]]
