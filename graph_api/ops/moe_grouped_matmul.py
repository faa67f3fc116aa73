# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmuls of rows with the weights of the expert that each row is routed to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from .. import arguments
from ..dtypes import DataType
from ..enums import MoeGroupedMatmulMode
from ..errors import Problem
from ..tensor import Tensor
from .base import Inferred, Op, OpSink, Port, Ports
from .fields import Absent, Field, Kind, inputs, outputs

__all__ = ["MoeGroupedMatmul", "check_groups", "moe_grouped_matmul"]

MOE_RULES = {
    "MOE-01": "tokens and gradients have dims (1, rows, width), weights (experts, in, out)",
    "MOE-02": "widths of tokens, weights and gradients agree",
    "MOE-03": "first_token_offset is INT32 of (groups, 1, 1), groups a multiple of the experts",
    "MOE-04": "the mode decides whether there is a token_index (gather, scatter) and token_ks",
    "MOE-05": "token_index and token_ks are INT32 of (1, rows, 1), as many rows in both",
    "MOE-06": "top_k is from 1 to the number of experts when scattering",
}

_ROUTES = {
    MoeGroupedMatmulMode.NONE: (),
    MoeGroupedMatmulMode.GATHER: ("token_index",),
    MoeGroupedMatmulMode.SCATTER: ("token_index", "token_ks"),
}


def check_groups(t: Ports, experts: int) -> Iterator[Problem]:
    """Yield the problems of ``first_token_offset`` (MOE-03)."""
    dims, kind = t.dims("first_token_offset"), t["first_token_offset"].data_type
    if len(dims) != 3 or dims[1:] != (1, 1) or dims[0] % experts:
        wanted = f"(groups, 1, 1), groups a multiple of the {experts} experts"
        yield t.problem("MOE-03", "first_token_offset", f"dims {list(dims)}", wanted)
    yield from check_index(t, "MOE-03", "first_token_offset", kind)


def check_index(t: Ports, rule: str, port: str, kind: DataType) -> Iterator[Problem]:
    """Yield a problem unless a tensor of indices is INT32."""
    if kind not in (DataType.INT32, DataType.UNSET):
        yield t.problem(rule, port, kind.json, "int32")


def check_rows(t: Ports, port: str, dims: tuple[int, ...]) -> Iterator[Problem]:
    """Yield a problem unless dims are (1, rows, width)."""
    if len(dims) != 3 or dims[0] != 1:
        yield t.problem("MOE-01", port, f"dims {list(dims)}", "(1, rows, width)")


@dataclass(frozen=True, kw_only=True)
class MoeGroupedMatmul(Op):
    """output[0, dst(r)] = token[0, src(r)] · weight[expert(r)].

    Attributes
    ----------
    mode : MoeGroupedMatmulMode
        NONE: src = dst = r; GATHER: src = token_index[r]; SCATTER: dst = token_index[r] · top_k
        + token_ks[r].
    top_k : int
        Experts per token, where results are scattered.
    """

    mode: MoeGroupedMatmulMode = MoeGroupedMatmulMode.NONE
    top_k: int = 0

    NAME: ClassVar[str] = "moe_grouped_matmul"
    INPUTS: ClassVar[tuple[Port, ...]] = (
        Port("token"),
        Port("weight"),
        Port("first_token_offset"),
        Port("token_index", optional=True),
        Port("token_ks", optional=True),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("output"),)
    RULES: ClassVar[Mapping[str, str]] = MOE_RULES
    TYPE_NAME: ClassVar[str] = "MoeGroupedMatmulAttributes"
    WIRE_CODE: ClassVar[int | None] = 22
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("token", "weight", "first_token_offset"),
        *inputs("token_index", "token_ks", absent=Absent.OMITTED),
        *outputs("output"),
        Field(
            name="mode",
            kind=Kind.ENUM,
            enum=MoeGroupedMatmulMode,
            default=MoeGroupedMatmulMode.NONE,
        ),
        Field(name="top_k", kind=Kind.INT, bits=32, default=0),
    )

    def check(self, t: Ports) -> Iterator[Problem]:
        token, weight = t.dims("token"), t.dims("weight")
        yield from check_rows(t, "token", token)
        if len(weight) != 3:
            yield t.problem("MOE-01", "weight", f"dims {list(weight)}", "(experts, in, out)")
            return
        if len(token) == 3 and token[2] != weight[1]:
            yield t.problem("MOE-02", "weight", f"dims[1] = {weight[1]}", f"{token[2]}, as token's")
        yield from check_groups(t, weight[0])
        yield from self._check_routes(t, weight[0])

    def _check_routes(self, t: Ports, experts: int) -> Iterator[Problem]:
        wanted = _ROUTES[self.mode]
        for port in ("token_index", "token_ks"):
            if (port in t) != (port in wanted):
                got = "a tensor" if port in t else "no tensor"
                need = "a tensor" if port in wanted else "none"
                yield t.problem("MOE-04", port, got, f"{need} in mode {self.mode.json}")
        rows: int | None = None  # of token_index, which comes first
        for port in (port for port in wanted if port in t):
            dims = t.dims(port)
            if len(dims) != 3 or (dims[0], dims[2]) != (1, 1):
                yield t.problem("MOE-05", port, f"dims {list(dims)}", "(1, rows, 1)")
            elif rows not in (None, dims[1]):
                yield t.problem("MOE-05", port, f"{dims[1]} rows", f"{rows}, as token_index")
            else:
                rows = dims[1]
            yield from check_index(t, "MOE-05", port, t[port].data_type)
        if self.mode is MoeGroupedMatmulMode.SCATTER and not 1 <= self.top_k <= experts:
            yield t.problem("MOE-06", "top_k", self.top_k, f"from 1 to {experts}, the experts")

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        rows = t.dims("token")[1]
        if self.mode is MoeGroupedMatmulMode.GATHER:
            rows = t.dims("token_index")[1]
        return {"output": Inferred(dims=(1, rows, t.dims("weight")[2]))}


def moe_grouped_matmul(
    graph: OpSink,
    token: Tensor,
    weight: Tensor,
    first_token_offset: Tensor,
    *,
    token_index: Tensor | None = None,
    token_ks: Tensor | None = None,
    mode: MoeGroupedMatmulMode | str = MoeGroupedMatmulMode.NONE,
    top_k: int = 0,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Multiply each row with the weights of its expert, as in a mixture of experts.

    Rows are sorted by group: group g starts at row ``first_token_offset[g]``, ends where the next
    one starts, and belongs to expert ``g mod experts``.  Row r of the result is
    ``token[0, src(r)] · weight[expert(r)]`` and is written to row dst(r) of the output; rows that
    are not written are zero.  The definition is that of hipDNN's CPU reference.

    Parameters
    ----------
    token : Tensor
        Dims (1, T, K).
    weight : Tensor
        Dims (E, K, N), any dense layout.
    first_token_offset : Tensor
        INT32, dims (batch · E, 1, 1), not descending, each from 0 to the number of rows.
    token_index : Tensor, optional
        INT32, dims (1, R, 1).  GATHER: the token of each row.  SCATTER: the token that a row
        came from.
    token_ks : Tensor, optional
        INT32, dims (1, R, 1), for SCATTER: which of the token's ``top_k`` experts it was.
    mode : MoeGroupedMatmulMode or str
        NONE: src(r) = dst(r) = r.  GATHER: src(r) = token_index[r].  SCATTER: dst(r) =
        token_index[r] · top_k + token_ks[r].
    top_k : int
        For SCATTER, from 1 to E.
    compute_data_type : DataType or str
        Type to accumulate in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        output, dims (1, R, N) for GATHER and (1, T, N) otherwise, contiguous unless strides are
        set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (MOE-…).

    Notes
    -----
    Index tensors that hipDNN forbids have a meaning too, so that none reads outside of a tensor:
    a row's group follows from the number of groups that start at or before it, indices of tokens
    are clamped, results outside of the output are dropped, and of two for one row the first stays.
    """
    node = arguments.label(name, MoeGroupedMatmul.NAME)
    op = MoeGroupedMatmul(
        mode=arguments.mode(MoeGroupedMatmulMode, mode, port="mode", node=node),
        top_k=arguments.integer(top_k, port="top_k", node=node) or 0,
    )
    given = {"token_index": token_index, "token_ks": token_ks}
    inputs = {
        "token": token,
        "weight": weight,
        "first_token_offset": first_token_offset,
        **{port: tensor for port, tensor in given.items() if tensor is not None},
    }
    return graph.add_node(op, inputs, compute=compute_data_type, name=name)["output"]
