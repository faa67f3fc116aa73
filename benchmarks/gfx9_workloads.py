# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The workloads of ``benchmarks/gfx9.py``: the cases of ``suites/gfx9.yaml`` and what is demanded.

Each is built in one of two ways.  As a user of this project would: intermediate values in the
compute type, in half precision where a matrix instruction takes them.  And as Fusilli needs it:
all tensors in half precision, since it converts nowhere (``half=True``).
"""

from __future__ import annotations

from dataclasses import dataclass

from hipdnn_iree import DataType, Graph
from hipdnn_iree.provider.sweep.samples import SUITES
from hipdnn_iree.provider.sweep.suite import Case, read

__all__ = ["WORKLOADS", "Workload"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """One graph to compile.

    Attributes
    ----------
    case : Case
    dispatches : int or None
        What is demanded on gfx942; None: no more than the plain form takes.
    plain : bool
        Whether Fusilli has the ops.
    reason : str
        Why IREE 3.13 cannot do what is demanded; empty where it can.
    """

    case: Case
    dispatches: int | None = None
    plain: bool = True
    reason: str = ""

    def build(self, *, half: bool = False) -> Graph:
        """Return the graph, with all tensors in half precision or as a user would have them."""
        return self.case.graph(DataType.HALF if half else DataType.FLOAT)


_ONE_DISPATCH = {
    *(f"conv3x3_bias_relu_{x}_{w}" for x in ("nchw", "nhwc") for w in ("kcrs", "krsc")),
    *("matmul", "matmul_bias_gelu", "sdpa", "sdpa_causal", "bias_gelu", "batchnorm_inference"),
    *("layernorm", "layernorm_n1000", "rmsnorm", "rmsnorm_n1000"),
}
_NOT_IN_FUSILLI = {"batchnorm_inference", "transformer_block"}
_DEPTHWISE = "each channel has a filter of its own: there is no matrix to multiply"
_REASONS = {
    "depthwise3x3_nchw": _DEPTHWISE,
    "depthwise3x3_nhwc": _DEPTHWISE,
    "layernorm_n1000": "rows that are no multiple of 64 go to single threads, unrolled (12 s to "
    "compile); completed, they take a list of 8 KB that is not fused",
}


def _workloads() -> dict[str, Workload]:
    path = SUITES / "gfx9.yaml"
    return {
        case.name: Workload(
            case=case,
            dispatches=1 if case.name in _ONE_DISPATCH else None,
            plain=case.name not in _NOT_IN_FUSILLI,
            reason=_REASONS.get(case.name, ""),
        )
        for case in read(path.read_bytes(), source=str(path), check=False).cases
    }


WORKLOADS = _workloads()
"""By name."""
