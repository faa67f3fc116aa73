# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix multiplication."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..dtypes import DataType
from ..errors import Problem
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Match, Op, OpSink, Port, Ports
from .fields import Field, inputs, outputs


@dataclass(frozen=True, kw_only=True)
class Matmul(Op):
    """c[..., M, N] = a[..., M, K] · b[..., K, N]; a transpose is a matter of strides."""

    NAME: ClassVar[str] = "matmul"
    ELSEWHERE: ClassVar[tuple[str, ...]] = ("bmm", "dot", "einsum", "gemm", "mm")
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("a"), Port("b"))
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("c"),)
    RULES: ClassVar[Mapping[str, str]] = {
        "MATMUL-01": "a and b have the same rank, 2 to 5",
        "MATMUL-02": "a's last dim equals b's last but one",
        "MATMUL-03": "of two batch dims one divides the other (the smaller one is repeated)",
    }
    TYPE_NAME: ClassVar[str] = "MatmulAttributes"
    WIRE_CODE: ClassVar[int | None] = 9
    MATCH: ClassVar[Match | None] = Match(priority=50)
    COSTS: ClassVar[bool] = True
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("a", "b"),
        *outputs("c"),
    )

    def check(self, t: Ports) -> Iterator[Problem]:
        a, b = t.dims("a"), t.dims("b")
        if len(a) != len(b) or not 2 <= len(a) <= 5:
            hint = "linear multiplies any x by a matrix" if len(b) == 2 else ""
            hint = "give a vector a second dim of 1" if min(len(a), len(b)) == 1 else hint
            ranks = f"ranks {len(a)} and {len(b)}"
            yield t.problem("MATMUL-01", "b", ranks, "two equal ranks from 2 to 5", hint)
            return
        if a[-1] != b[-2]:
            yield t.problem(
                "MATMUL-02",
                "b",
                f"dims {list(b)}",
                f"dims[-2] = {a[-1]}, as a's {list(a)}",
                "transpose an operand by swapping its last two dims and strides",
            )
        for axis, (m, n) in enumerate(zip(a[:-2], b[:-2], strict=True)):
            if max(m, n) % min(m, n):
                yield t.problem(
                    "MATMUL-03", "b", f"batch dims[{axis}] {m} and {n}", "one divides the other"
                )

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        a, b = t.dims("a"), t.dims("b")
        batch = tuple(max(m, n) for m, n in zip(a[:-2], b[:-2], strict=True))
        return {"c": Inferred(dims=(*batch, a[-2], b[-1]))}

    def follows(self, at: Axis) -> Follows:
        if at.axis == at.rank - (1 if at.port == "a" else 2):
            return "K, which is summed over"
        if at.axis < at.rank - 2:
            other = "b" if at.port == "a" else "a"
            same = at.mark(other, at.axis) == at.mark(at.port, at.axis)
            if at.dims[other][at.axis] != 1 and not same:
                return f"which batch of {other} is taken depends on its extent"
        return at.to()


def matmul(
    graph: OpSink,
    a: Tensor,
    b: Tensor,
    *,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Multiply matrices, batch by batch.

    Parameters
    ----------
    a, b : Tensor
        Dims (batch..., M, K) and (batch..., K, N), equal ranks from 2 to 5.  A transposed operand
        is expressed by its strides.  Of two batch dims one must divide the other; the smaller
        batch is then repeated element by element, ``b[i // (large // small)]``, as hipDNN does
        for grouped-query attention.
    compute_data_type : DataType or str
        Type to accumulate in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        c, dims (batch..., M, N), contiguous unless strides are set.

    Raises
    ------
    GraphError
        At ``validate``, for broken rules (MATMUL-…).
    """
    return graph.add_node(Matmul(), {"a": a, "b": b}, compute=compute_data_type, name=name)["c"]
