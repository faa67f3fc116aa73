"""When IREE's attention kernel is used; decided without torch-mlir, as rules ask it too."""

from __future__ import annotations

from collections.abc import Mapping

from ...graph_api.dtypes import DataType
from ...graph_api.frozen import FrozenNode
from ...graph_api.ops.sdpa import Sdpa

__all__ = ["fuses"]

TYPES = (DataType.HALF, DataType.BFLOAT16, DataType.FLOAT)


def fuses(node: FrozenNode, heads: Mapping[str, int], kinds: Mapping[str, DataType]) -> bool:
    """Whether IREE's attention kernel for gfx9 computes exactly this node.

    ``heads`` are those of k and v, ``kinds`` the data types of all inputs, by port.
    """
    op = node.op
    return (
        isinstance(op, Sdpa)
        and set(node.inputs) <= {"q", "k", "v", "attn_mask"}
        and set(node.outputs) == {"o"}
        and kinds["q"] is kinds["k"] is kinds["v"]
        and kinds["q"] in TYPES
        and node.compute_data_type is DataType.FLOAT
        and not op.alibi_mask
        and heads["k"] == heads["v"]
        and (
            op.band == (None, None, False)
            or (op.band == (None, 0, False) and "attn_mask" not in node.inputs)
        )
    )
