# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of a mixture of experts' matmuls with respect to the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from ..dtypes import DataType
from ..errors import Problem
from ..tensor import Tensor
from .base import Inferred, Ints, Op, OpSink, Port, Ports
from .fields import Field, inputs, outputs
from .moe_grouped_matmul import MOE_RULES, check_groups, check_rows

__all__ = ["MoeGroupedMatmulBwd", "moe_grouped_matmul_bwd"]

MOEBWD_RULES = {
    "MOEBWD-01": "dweight's dims are given, as no operand determines the number of experts",
}


@dataclass(frozen=True, kw_only=True)
class MoeGroupedMatmulBwd(Op):
    """dweight[e] = Σ over the rows r of expert e of tokenᵀ[r] · doutput[r].

    Attributes
    ----------
    dweight_dims : tuple of int
        The result's dims; filled in when the graph is frozen.
    """

    dweight_dims: Ints = ()

    NAME: ClassVar[str] = "moe_grouped_matmul_bwd"
    INPUTS: ClassVar[tuple[Port, ...]] = (
        Port("doutput"),
        Port("token"),
        Port("first_token_offset"),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("dweight"),)
    RULES: ClassVar[Mapping[str, str]] = MOE_RULES | MOEBWD_RULES
    TYPE_NAME: ClassVar[str] = "MoeGroupedMatmulBwdAttributes"
    WIRE_CODE: ClassVar[int | None] = 23
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("doutput", "token", "first_token_offset"),
        *outputs("dweight"),
    )

    def check(self, t: Ports) -> Iterator[Problem]:
        token, doutput, dweight = t.dims("token"), t.dims("doutput"), t.given("dweight")
        broken = [*check_rows(t, "token", token), *check_rows(t, "doutput", doutput)]
        yield from broken
        if dweight is None:
            hint = "give dweight_dims, or set_dim on the result"
            yield t.problem("MOEBWD-01", "dweight", "no dims", "(experts, in, out)", hint)
            return
        if len(dweight) != 3:
            yield t.problem("MOE-01", "dweight", f"dims {list(dweight)}", "(experts, in, out)")
            return
        yield from check_groups(t, dweight[0])
        if broken:
            return
        if token[1] != doutput[1]:
            yield t.problem("MOE-02", "doutput", f"{doutput[1]} rows", f"{token[1]}, as token")
        if dweight[1:] != (token[2], doutput[2]):
            wanted = f"{[token[2], doutput[2]]}, the widths of token and doutput"
            yield t.problem("MOE-02", "dweight", f"dims[1:] = {list(dweight[1:])}", wanted)

    def settle(self, t: Ports) -> Self:
        return replace(self, dweight_dims=t.dims("dweight"))

    def at(
        self, before: Mapping[str, Ints], after: Mapping[str, Ints]
    ) -> tuple[Self, Mapping[str, Ints]]:
        dims = (before["dweight"][0], after["token"][2], after["doutput"][2])
        return replace(self, dweight_dims=dims if self.dweight_dims else ()), {"dweight": dims}

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        experts, k, n = t.dims("dweight")
        # hipDNN's layout of weights: each expert's matrix by columns.
        return {"dweight": Inferred(dims=(experts, k, n), strides=(k * n, 1, k))}


def moe_grouped_matmul_bwd(
    graph: OpSink,
    doutput: Tensor,
    token: Tensor,
    first_token_offset: Tensor,
    *,
    dweight_dims: Sequence[int] | None = None,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Return the gradient of a mixture of experts' weights, for rows that are sorted by group.

    ``dweight[e, k, n] = Σ token[0, r, k] · doutput[0, r, n]`` over the rows r of expert e; see
    ``moe_grouped_matmul`` (mode NONE), whose transpose as a linear map of the weights it is.

    Parameters
    ----------
    doutput : Tensor
        Gradient of the result, dims (1, T, N).
    token : Tensor
        Dims (1, T, K).
    first_token_offset : Tensor
        INT32, dims (batch · E, 1, 1), as in ``moe_grouped_matmul``.
    dweight_dims : sequence of int
        (E, K, N); ``set_dim`` on the result does the same.
    compute_data_type : DataType or str
        Type to accumulate in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        dweight; each expert's matrix is laid out by columns, as hipDNN does, unless strides are
        set.  Experts without rows have zeros.

    Raises
    ------
    GraphError
        At ``validate`` for broken rules (MOE-…, MOEBWD-01).
    """
    inputs = {"doutput": doutput, "token": token, "first_token_offset": first_token_offset}
    op = MoeGroupedMatmulBwd()
    result = graph.add_node(op, inputs, compute=compute_data_type, name=name)["dweight"]
    return result if dweight_dims is None else result.set_dim(dweight_dims)
