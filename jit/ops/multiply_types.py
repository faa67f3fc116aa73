# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""In which type matmuls and convolutions take their operands."""

from __future__ import annotations

from ...graph_api.dtypes import DataType
from ..cpu_machine import cpu_machine
from ..node_context import NodeContext
from ..target import Target
from ..workarounds import strikes

__all__ = ["carrier", "is_code", "is_emulated", "multiplies", "multiply_type", "up_to_float"]

_UP_TO_32_BITS = frozenset({DataType.FLOAT, DataType.HALF, DataType.BFLOAT16})
_CODES = frozenset(
    {
        DataType.FP8_E4M3,
        DataType.FP8_E5M2,
        DataType.FP8_E4M3_FNUZ,
        DataType.FP8_E5M2_FNUZ,
        DataType.FP4_E2M1,
        DataType.FP6_E2M3,
        DataType.FP6_E3M2,
        DataType.FP8_E8M0,
    }
)

# Formats that matrix instructions take, by architecture (AMD's CDNA 3 and CDNA 4 ISA documents).
_NATIVE: dict[str, tuple[DataType, ...]] = {
    "gfx942": (DataType.FP8_E4M3_FNUZ, DataType.FP8_E5M2_FNUZ),
    "gfx950": (DataType.FP8_E4M3, DataType.FP8_E5M2),
}


def is_code(dtype: DataType) -> bool:
    """Return whether elements are handled by the code of a narrow float, not by their value."""
    return dtype in _CODES


def carrier(dtype: DataType, compute: DataType) -> DataType:
    """Return the cheapest type to multiply ``dtype`` in that holds all its values."""
    if dtype is DataType.INT4 and compute.is_integer:
        return DataType.INT8
    if dtype is DataType.FP8_E8M0:
        return DataType.FLOAT
    return DataType.HALF if dtype in _CODES or dtype is DataType.INT4 else dtype


def multiplies(target: Target, dtype: DataType) -> bool:
    """Return whether matrix instructions of the target take a narrow float as it is."""
    return dtype in _NATIVE.get(target.arch, ())


def is_emulated(target: Target, dtype: DataType, uses: int = 1) -> bool:
    """Return whether a CPU multiplies a type so slowly that it is converted and copied first.

    ``uses``: how often each of the numbers is multiplied.
    """
    return target.is_cpu and strikes("W-151", target, dtype, cpu_machine(target), uses)


def multiply_type(
    target: Target,
    compute: DataType,
    *types: DataType,
    widen: bool = False,
    codes: bool = False,
) -> DataType:
    """Return the type that both operands are converted to.

    Operands narrower than the compute type stay narrow: the product is exact in the wider type
    and the hardware's mixed-precision instructions (MFMA, VNNI) apply.  All others are
    converted to the compute type, and so are 16-bit floats with ``widen``.  Types of 8 bits and
    less come as float16 (INT4 in integers: int8), which holds them; with ``codes`` two of one
    kind stay as they are if the target multiplies them.
    """
    widen = widen or strikes("W-027", target)
    kept = codes and compute is DataType.FLOAT and len(set(types)) == 1
    if kept and multiplies(target, types[0]):
        return types[0]
    carriers = [carrier(t, compute) for t in types]
    common = next((t for t in carriers if all(map(t.holds, types))), None)
    if common is None or (widen and common.is_float) or not _stays_narrow(common, compute):
        return compute
    if common is not compute and is_emulated(target, common):
        return compute
    return common


def _stays_narrow(operand: DataType, compute: DataType) -> bool:
    if operand is compute:
        return True
    if compute is DataType.FLOAT:
        return operand.is_float and operand.bits < 32
    # W-003: torch-mlir multiplies si8 into si32; other integers go through the compute type.
    return compute is DataType.INT32 and operand is DataType.INT8


def up_to_float(context: NodeContext, *ports: str) -> bool:
    """Return whether all is computed in float32: operands of 16 bits become that (W-013)."""
    kinds = {context.kind(port) for port in ports}
    return context.compute is DataType.FLOAT and kinds <= _UP_TO_32_BITS
