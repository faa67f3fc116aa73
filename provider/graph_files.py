# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graph files of every kind: hipDNN's JSON, its FlatBuffers, and artifacts."""

from __future__ import annotations

from pathlib import Path

from ..graph_api.errors import FormatError
from ..graph_api.formats.meanings import exchange, is_open, mark_outputs, sample_at, x_first
from .graph import Graph

__all__ = ["is_artifact", "load", "loads"]


def load(path: str | Path) -> Graph:
    """Read a graph file: hipDNN's JSON (``HIPDNN_LOG_GRAPH_DIR``), its FlatBuffer, an artifact.

    Raises
    ------
    FormatError
        If the file is not such a graph; with all problems found.
    OSError
        If the file cannot be read.
    """
    return loads(Path(path).read_bytes(), source=str(path))


def is_artifact(data: bytes) -> bool:
    """Whether bytes begin like an artifact, which is a ZIP archive."""
    return data.startswith(b"PK\3\4")


def loads(data: bytes, *, source: str = "graph") -> Graph:
    """Read the bytes of a graph; the one place that tells the kinds of files apart.

    Parameters
    ----------
    data : bytes
        hipDNN's graph JSON, or the FlatBuffer that hipDNN hands to its plugins, of any era, or an
        artifact, of which the code is left alone.
    source : str
        Where they come from, for error texts.

    Raises
    ------
    FormatError
        If they are not such a graph; with all problems found.
    """
    if is_artifact(data):
        from .artifacts.artifact import Artifact

        return Artifact(data, source).graph
    try:
        return _decoded(data)
    except FormatError as error:
        raise FormatError(f"{source}: {error.message}", error.problems) from None


def _decoded(data: bytes) -> Graph:
    from ..jit.settings import settings

    if not data.startswith(b"{"):  # importing the wire format takes as long as reading a graph
        from ..graph_api.formats.flatbuffer import decode
        from ..graph_api.formats.flatbuffer import plan_envelope as plan

        if decode.is_binary(data):
            if data[4:8] == plan.GRAPH_AND_PLAN_ID:
                data, _ = plan.split_graph_and_plan(data)
            now = settings()
            graph = decode.decode(
                data,
                Graph,
                inv_variance=now.graph_inv_variance,
                backward_operands=now.graph_backward_operands,
            ).graph
            sample_at(graph, now.graph_resize_coordinates)
            return graph
    graph = Graph.from_json(data)
    mark_outputs(graph)
    if is_open(graph):  # else a graph can be read whatever the settings say
        now = settings()
        if now.graph_inv_variance == "variance":  # a JSON file does not tell its era
            from ..graph_api.formats.flatbuffer import inv_variance

            inv_variance.reinterpret(graph)
        if x_first(now.graph_backward_operands):
            exchange(graph)
        sample_at(graph, now.graph_resize_coordinates)
    return graph
