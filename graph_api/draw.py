# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs for people: text, Graphviz and Mermaid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING
from unicodedata import category

from .arguments import shown
from .dtypes import DataType
from .dynamic_dim import DERIVED
from .layout import channels_last_strides, contiguous_strides, same_strides

if TYPE_CHECKING:
    from .building import GraphBuilder
    from .frozen import FrozenGraph
    from .ops.base import Op
    from .tensor import Tensor, TensorSpec

__all__ = ["describe", "describe_unfrozen", "layout_name", "to_dot", "to_mermaid"]


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
    dims = _extents(spec.dims, spec.dynamic) or "?"  # not known in a graph that breaks rules
    known = len(spec.strides) == len(spec.dims)
    layout = layout_name(spec.dims, spec.strides) if known else "of unknown layout"
    return f"{spec.data_type.json}[{dims}]" + ("" if layout == "contiguous" else f" {layout}")


def _extents(dims: Sequence[int], names: Sequence[str]) -> str:
    """Return e.g. ``n=4,3,8*``: a dynamic dim at its example, and one that follows from such."""
    shown = {name: f"{name}={{}}" for name in names} | {"": "{}", DERIVED: "{}*"}
    return ",".join(shown[name].format(n) for n, name in zip_longest(dims, names, fillvalue=""))


def _headline(graph: GraphBuilder | FrozenGraph) -> str:
    symbols = graph.symbols
    symbols = tuple(symbols.values()) if isinstance(symbols, Mapping) else symbols
    sizes = [f"\n  {dim.name}: {dim.low} to {dim.high}" for dim in symbols]
    return (
        f"{type(graph).__name__} {graph.name!r} (io {graph.io_data_type.json}, intermediate "
        f"{graph.intermediate_data_type.json}, compute {graph.compute_data_type.json})"
        + "".join(sizes)
    )


def describe(graph: FrozenGraph) -> str:
    """Return a readable listing of a graph; one line a node."""
    lines = [_headline(graph)]
    specs = {uid: operand(t, _shown(t.name) or f"#{uid}") for uid, t in graph.tensors.items()}
    for node in graph.nodes:
        results = [(specs[u], graph.tensors[u].virtual) for u in node.outputs.values()]
        operands = [(p, specs[u]) for p, u in node.inputs.items()]
        lines.append(_line(node.label, node.op, results, operands))
    return "\n".join(lines)


def describe_unfrozen(graph: GraphBuilder) -> str:
    """Return such a listing of a graph that is still being built."""
    lines = [_headline(graph)]
    numbers = {id(t): i for i, t in enumerate(graph.tensors)}

    def text(tensor: Tensor) -> str:
        name = _shown(tensor.name)
        if not name:
            uid = tensor.given_uid
            name = f"#{uid}" if uid is not None else f"%{numbers.get(id(tensor), '?')}"
        return operand(tensor, name)

    for i, built in enumerate(graph.nodes):
        label = built.name or f"{built.op.NAME}_{i}"
        results = [(text(t), t.virtual) for t in built.outputs.values()]
        operands = [(p, text(t)) for p, t in built.inputs.items()]
        lines.append(_line(label, built.op, results, operands))
    return "\n".join(lines)


def operand(tensor: Tensor | TensorSpec, name: str) -> str:
    """Return a tensor in one line: its name, type and dims, or its value."""
    if tensor.value is not None:
        return shown(tensor.value)
    dims = "?" if tensor.dims is None else _extents(tensor.dims, tensor.dynamic)
    kind = "" if tensor.data_type is DataType.UNSET else tensor.data_type.json
    return f"{name}: {kind}[{dims}]"


def _line(
    label: str, op: Op, results: list[tuple[str, bool]], operands: list[tuple[str, str]]
) -> str:
    written = ", ".join(text + ("" if virtual else " (output)") for text, virtual in results)
    taken = ", ".join(f"{port}={text}" for port, text in operands)
    return f"  {_shown(label)}: {written} = {op.title()}({taken})"


def _shown(name: str) -> str:
    """Return a name as it is, or quoted when it would break the line."""
    return name if name.isprintable() else repr(name)


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
        boxes.append((f"n{i}", f"{node.label}\n{node.op.title()}{scalars}", False))
    return boxes


def _visible(text: str) -> str:
    """Return the text with line breaks as they are and other control characters as escapes."""
    return "".join(
        c if c == "\n" or category(c) not in _CONTROL else c.encode("unicode_escape").decode()
        for c in text
    )


# Control characters, halves of surrogate pairs, and the separators of lines and paragraphs.
_CONTROL = ("Cc", "Cs", "Zl", "Zp")
# Graphviz reads entities such as &lt; in labels.
_DOT = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;", "\n": "\\n"})
# "#" starts Mermaid's own entities, a backtick its Markdown strings.
_MERMAID = str.maketrans(
    {
        "#": "#35;",
        "&": "#amp;",
        '"': "#quot;",
        "<": "#lt;",
        ">": "#gt;",
        "`": "#96;",
        "\n": "<br/>",
    }
)


def to_dot(graph: FrozenGraph) -> str:
    """Return Graphviz source: boxes are ops, ellipses are buffers."""

    def quote(text: str) -> str:
        return f'"{_visible(text).translate(_DOT)}"'

    lines = [f"digraph {quote(graph.name or 'graph')} {{", "  node [fontname=sans];"]
    for box, text, is_buffer in _boxes(graph):
        shape = "ellipse" if is_buffer else "box"
        lines.append(f"  {box} [shape={shape}, label={quote(text)}];")
    lines += [f"  {a} -> {b} [label={quote(label)}];" for a, b, label in _edges(graph)]
    return "\n".join([*lines, "}"])


def to_mermaid(graph: FrozenGraph) -> str:
    """Return a Mermaid flowchart."""

    def quote(text: str) -> str:
        return f'"{_visible(text).translate(_MERMAID)}"'

    lines = ["flowchart TD"]
    for box, text, is_buffer in _boxes(graph):
        left, right = ("([", "])") if is_buffer else ("[", "]")
        lines.append(f"  {box}{left}{quote(text)}{right}")
    lines += [f"  {a} -->|{quote(label)}| {b}" for a, b, label in _edges(graph)]
    return "\n".join(lines)
