# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Artifacts that are written: plans of one graph, and their code, in one file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...graph_api.errors import FormatError, NotSupportedError
from ...graph_api.files import write_file
from ...graph_api.frozen import FrozenGraph
from ...jit.container import pack
from ...jit.pipeline import Compiled, made_with, signature_of
from ..plan import Plan
from .artifact import Artifact, read_graph
from .artifact_manifest import Manifest, PlanRecord

__all__ = ["packed", "save_artifact"]


def save_artifact(path: str | Path, plans: Plan | Iterable[Plan]) -> Artifact:
    """Write plans of one graph into one file, and return what is in it.

    The same plans give the same bytes.  The file appears as a whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file, by convention with the suffix ``.hipdnn-iree``.
    plans : Plan or iterable of Plan
        Of the IREE engine: one graph built for one or more targets, or with several knobs.  Of
        a plan with buckets all are saved (at most 64), and compiled now where that was not done.

    Raises
    ------
    NotSupportedError
        If a plan has no code that could be saved, or the plans are not of one graph.
    FormatError
        If the graph cannot be written.
    OSError
        If the file cannot be written.
    """
    data = packed([plans] if isinstance(plans, Plan) else list(plans))
    artifact = Artifact(data, str(path))
    artifact.verify()
    write_file(path, data)
    return artifact


def packed(plans: list[Plan]) -> bytes:
    """Return the bytes of an artifact; see `save_artifact`."""
    from ... import __version__

    if not plans:
        raise NotSupportedError("an artifact needs at least one plan")
    graph = plans[0].graph
    if graph.constants:
        labels = ", ".join(graph.tensors[uid].label for uid in graph.constants[:3])
        raise NotSupportedError(
            f"graph {graph.name!r} has constants ({labels}), which no artifact holds; build it "
            "with plain inputs"
        )
    name, text = _write_graph(graph)
    parts, records = {name: text}, []
    for plan in plans:
        if plan.graph != graph or set(plan.graph.tensors) != set(graph.tensors):
            raise NotSupportedError(
                f"one artifact holds one graph: {plan.graph.name!r} is another than {graph.name!r}"
            )
        for bucket, code in _codes(plan):
            compiled = getattr(code, "compiled", None)
            if not isinstance(compiled, Compiled):
                raise NotSupportedError(
                    f"the plan of {plan.engine} for graph {graph.name!r} has no compiled code to "
                    "save"
                )
            known = next((n for n, data in parts.items() if data == compiled.vmfb), None)
            part = known or f"code/{len(parts) - 1}.vmfb"
            parts[part] = compiled.vmfb
            records.append(
                PlanRecord(
                    engine=plan.engine,
                    knobs=code.knobs,
                    target=plan.target,
                    bucket=bucket,
                    part=part,
                    sha256=compiled.sha256,
                    nbytes=len(compiled.vmfb),
                    key=compiled.key,
                    signature=signature_of(code.graph, compiled.workspace_bytes or 0),
                    workspace_bytes=compiled.workspace_bytes,
                    statistics=compiled.statistics,
                )
            )
    manifest = Manifest(
        made_by={"hipdnn-iree": __version__, **made_with()},
        graph_name=graph.name,
        graph_digest=graph.digest,
        graph_part=name,
        plans=tuple(records),
    )
    return pack(manifest.as_dict(), parts)


def _codes(plan: Plan) -> list[tuple[dict[str, int], Plan]]:
    """Return the plans that have code, each with the bucket that it is for."""
    from ..bucket_plan import BucketPlan

    return plan.every() if isinstance(plan, BucketPlan) else [({}, plan)]


def _write_graph(graph: FrozenGraph) -> tuple[str, bytes]:
    """Return the graph as JSON, or as a FlatBuffer where JSON cannot hold it."""
    from ...graph_api.formats.flatbuffer.encode import encode
    from ...graph_api.formats.json.json_form import dumps

    try:
        form = "graph.json", dumps(graph).encode("utf-8", "backslashreplace")
    except FormatError:  # an infinite scalar
        form = "graph.bin", encode(graph)
    again = read_graph(*form).freeze()
    if again != graph or (again.inputs, again.outputs) != (graph.inputs, graph.outputs):
        raise FormatError(f"graph {graph.name!r} is another one when it is read back")
    return form
