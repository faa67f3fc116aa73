# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN's envelopes of serialized plans; what a plugin puts inside is its own."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import FormatError
from .buffer_reader import Reader
from .buffer_writer import write
from .hipdnn_tables import GRAPH_AND_PLAN, PLAN
from .schema_types import Record
from .wire_rules import problem, refuse

__all__ = [
    "GRAPH_AND_PLAN_ID",
    "SerializedPlan",
    "decode_plan",
    "encode_plan",
    "join_graph_and_plan",
    "split_graph_and_plan",
]

GRAPH_AND_PLAN_ID = b"HDGP"
"""File identifier of a buffer that holds a graph and its plan."""

_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class SerializedPlan:
    """A plan as hipDNN stores it.

    Attributes
    ----------
    engine_id : int
    workspace_size : int
        Bytes.
    tensor_uids : tuple of int
        Tensors that have a buffer.
    payload : bytes
        The plugin's own part.
    is_override_shape_enabled : bool
    tensor_alignments : tuple of int
        Bytes, one for each of the uids; empty for 16 throughout.
    """

    engine_id: int
    workspace_size: int = 0
    tensor_uids: tuple[int, ...] = ()
    payload: bytes = b""
    is_override_shape_enabled: bool = False
    tensor_alignments: tuple[int, ...] = ()


def decode_plan(data: bytes) -> SerializedPlan:
    """Read a plan; fields of newer hipDNN are left aside.

    Raises
    ------
    FormatError
        If the buffer is damaged, or of another version (WIRE-10).
    """
    record = Reader(data, strict=False).root(PLAN)
    if record["version"] != _VERSION:
        found = problem("WIRE-10", PLAN.name, "version", record["version"], str(_VERSION))
        raise FormatError("the plan is of another version", [found])
    uids, alignments = record["tensor_uids"] or (), record["tensor_alignments"] or ()
    if alignments and len(alignments) != len(uids):
        got = f"{len(alignments)} for {len(uids)} tensors"
        raise refuse("WIRE-06", PLAN.name, "tensor_alignments", got, "one per tensor, or none")
    return SerializedPlan(
        engine_id=record["engine_id"],
        workspace_size=record["workspace_size"],
        tensor_uids=uids,
        payload=record["plugin_payload"] or b"",
        is_override_shape_enabled=record["is_override_shape_enabled"],
        tensor_alignments=alignments,
    )


def encode_plan(plan: SerializedPlan) -> bytes:
    """Write a plan.

    Raises
    ------
    FormatError
        If a number does not fit its field (WIRE-14).
    """
    record = Record(
        PLAN,
        version=_VERSION,
        engine_id=plan.engine_id,
        workspace_size=plan.workspace_size,
        tensor_uids=plan.tensor_uids,
        plugin_payload=plan.payload,
        is_override_shape_enabled=plan.is_override_shape_enabled,
        tensor_alignments=plan.tensor_alignments or None,
    )
    return write(record)


def split_graph_and_plan(data: bytes) -> tuple[bytes, bytes]:
    """Return the graph's buffer and the plan's of a buffer that holds both; b"" for none.

    Raises
    ------
    FormatError
        If the buffer is damaged or none of that kind.
    """
    if data[4:8] != GRAPH_AND_PLAN_ID:
        got = repr(data[4:8])
        raise refuse("WIRE-01", GRAPH_AND_PLAN.name, "", got, f"identifier {GRAPH_AND_PLAN_ID!r}")
    record = Reader(data, strict=False).root(GRAPH_AND_PLAN)
    return record["graph_blob"] or b"", record["plan_blob"] or b""


def join_graph_and_plan(graph: bytes, plan: bytes = b"") -> bytes:
    """Return one buffer with a graph's and, if there is one, its plan's."""
    record = Record(GRAPH_AND_PLAN, graph_blob=graph, plan_blob=plan or None)
    return write(record, identifier=GRAPH_AND_PLAN_ID)
