# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-151: Products of 16-bit floats convert each number anew whenever they multiply it.

Of halves that takes twice as long as a product of float32; of bfloat16 it is scalar code on a CPU
without AVX512-BF16, a hundred times as slow.
"""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ...cpu_machine import CpuMachine
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


# Halves that are multiplied so often are worth a copy (4 rows by 2048x2048: 2.8 ms instead of 1.7;
# 49 by 1152x320: 0.70 instead of 1.13).
_OFTEN = 16


def _anew(dtype: DataType, machine: CpuMachine, uses: int) -> bool:
    if dtype is DataType.HALF:
        return uses >= _OFTEN
    return dtype is DataType.BFLOAT16 and not machine.has_bfloat16


WORKAROUND = Workaround(
    id="W-151",
    title="Products of 16-bit floats convert each number anew whenever they multiply it",
    symptom="slow",
    targets=CPU,
    instead="the operands are converted to float32, and copied",
    applies=_anew,
)
