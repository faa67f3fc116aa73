"""Graphs for people: text, Graphviz and Mermaid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .layout import channels_last_strides, contiguous_strides, same_strides
from .ops.pointwise import Pointwise
from .ops.reduction import Reduction

if TYPE_CHECKING:
    from .frozen import FrozenGraph, FrozenNode
    from .graph import Graph
    from .tensor import TensorSpec

__all__ = ["describe", "layout_name", "to_dot", "to_mermaid"]


def layout_name(dims: Sequence[int], strides: Sequence[int]) -> str:
    """Return ``contiguous``, ``channels-last`` or the strides themselves."""
    if same_strides(dims, strides, contiguous_strides(dims)):
        return "contiguous"
    if same_strides(dims, strides, channels_last_strides(dims)):
        return "channels-last"
    return f"strides {list(strides)}"


def tensor_text(spec: TensorSpec) -> str:
    """Return e.g. ``half[16,64,56,56] channels-last``."""
    if spec.value is not None:
        return f"{spec.data_type.json} {spec.value!r}"
    dims = ",".join(map(str, spec.dims))
    layout = layout_name(spec.dims, spec.strides)
    return f"{spec.data_type.json}[{dims}]" + ("" if layout == "contiguous" else f" {layout}")


def node_text(node: FrozenNode) -> str:
    """Return the op with its mode."""
    if isinstance(node.op, Pointwise | Reduction):
        return f"{node.op.NAME} {node.op.mode.name}"
    return node.op.NAME


def describe(graph: Graph) -> str:
    """Return a readable listing of a graph that is still being built, or frozen."""

    def text(tensor: object) -> str:
        from .tensor import Tensor

        assert isinstance(tensor, Tensor)
        name = tensor.name or (f"#{tensor.given_uid}" if tensor.given_uid is not None else "")
        if not name:
            name = f"%{numbers[id(tensor)]}"
        if tensor.value is not None:
            return repr(tensor.value)
        dims = "?" if tensor.dims is None else ",".join(map(str, tensor.dims))
        kind = "" if tensor.data_type.wire == 0 else tensor.data_type.json
        return f"{name}: {kind}[{dims}]"

    numbers = {id(t): i for i, t in enumerate(graph.tensors)}
    lines = [
        f"Graph {graph.name!r} (io {graph.io_data_type.json}, intermediate "
        f"{graph.intermediate_data_type.json}, compute {graph.compute_data_type.json})"
    ]
    for i, node in enumerate(graph.nodes):
        results = ", ".join(
            f"{text(t)}" + ("" if t.virtual else " (output)") for t in node.outputs.values()
        )
        operands = ", ".join(f"{p}={text(t)}" for p, t in node.inputs.items())
        mode = getattr(node.op, "mode", None)
        op = node.op.NAME + (f" {mode.name}" if mode is not None else "")
        lines.append(f"  {node.name or f'{node.op.NAME}_{i}'}: {results} = {op}({operands})")
    return "\n".join(lines)


def _edges(graph: FrozenGraph) -> list[tuple[str, str, str]]:
    """Return (from, to, label) with ids ``t<i>`` for buffers and ``n<i>`` for nodes."""
    place = {u: f"t{i}" for i, u in enumerate((*graph.inputs, *graph.outputs))}
    writer = {u: f"n{i}" for i, n in enumerate(graph.nodes) for u in n.outputs.values()}
    edges = []
    for i, node in enumerate(graph.nodes):
        for port, uid in node.inputs.items():
            spec = graph.tensors[uid]
            if spec.value is None:
                label = f"{port}: {tensor_text(spec)}" if uid in writer else port
                edges.append((writer.get(uid) or place[uid], f"n{i}", label))
        for port, uid in node.outputs.items():
            if uid in place:
                edges.append((f"n{i}", place[uid], port))
    return edges


def _boxes(graph: FrozenGraph) -> list[tuple[str, str, bool]]:
    """Return (id, text, is a buffer)."""
    boxes = []
    for i, uid in enumerate((*graph.inputs, *graph.outputs)):
        spec = graph.tensors[uid]
        boxes.append((f"t{i}", f"{spec.name or f'uid {uid}'}\n{tensor_text(spec)}", True))
    for i, node in enumerate(graph.nodes):
        scalars = "".join(
            f"\n{port} = {tensor_text(graph.tensors[uid])}"
            for port, uid in node.inputs.items()
            if graph.tensors[uid].value is not None
        )
        boxes.append((f"n{i}", f"{node.label}\n{node_text(node)}{scalars}", False))
    return boxes


def to_dot(graph: FrozenGraph) -> str:
    """Return Graphviz source: boxes are ops, ellipses are buffers."""

    def quote(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    lines = [f"digraph {quote(graph.name or 'graph')} {{", "  node [fontname=sans];"]
    for box, text, is_buffer in _boxes(graph):
        shape = "ellipse" if is_buffer else "box"
        lines.append(f"  {box} [shape={shape}, label={quote(text)}];")
    lines += [f"  {a} -> {b} [label={quote(label)}];" for a, b, label in _edges(graph)]
    return "\n".join([*lines, "}"])


def to_mermaid(graph: FrozenGraph) -> str:
    """Return a Mermaid flowchart."""

    def quote(text: str) -> str:
        for raw, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
            text = text.replace(raw, entity)
        return '"' + text.replace("\n", "<br/>") + '"'

    lines = ["flowchart TD"]
    for box, text, is_buffer in _boxes(graph):
        left, right = ("([", "])") if is_buffer else ("[", "]")
        lines.append(f"  {box}{left}{quote(text)}{right}")
    lines += [f"  {a} -->|{quote(label)}| {b}" for a, b, label in _edges(graph)]
    return "\n".join(lines)
