# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text and pictures of graphs: complete, and valid whatever the names are."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hipdnn_iree.graph_api.draw import describe, layout_name, to_dot, to_mermaid
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.layout import channels_last_strides, contiguous_strides
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = [
    "", "x", "a b", 'say "hi"', "back\\slash", 'end\\"', "<b>&amp;</b>", "two\nlines", "a\r\nb",
    "tab\t", "nul\x00", "{}|[]()", "#quot;", "`code`", "größe 😀", "%%comment", "end", "--> x",
    "\u2028", "];", "1", "x" * 300, "&#35;", "\\n",
]  # fmt: skip

STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
DOT_NODE = re.compile(r'^  ([tn]\d+) \[shape=(box|ellipse), label="((?:[^"\\\n]|\\.)*)"\];$')
DOT_EDGE = re.compile(r'^  ([tn]\d+) -> ([tn]\d+) \[label="((?:[^"\\\n]|\\.)*)"\];$')
MERMAID_NODE = re.compile(r'^  ([tn]\d+)(\(\[|\[)"([^"]*)"(\]\)|\])$')
MERMAID_EDGE = re.compile(r'^  ([tn]\d+) -->\|"([^"]*)"\| ([tn]\d+)$')


def parse_dot(text: str) -> tuple[dict[str, tuple[str, str]], list[tuple[str, str, str]]]:
    """Read the source back line by line; nothing else may be in it."""
    first, second, *lines, last = text.split("\n")
    assert re.fullmatch(r'digraph "(?:[^"\\\n]|\\.)*" \{', first)
    assert second == "  node [fontname=sans];"
    assert last == "}"
    boxes, edges = {}, []
    for line in lines:
        if match := DOT_NODE.match(line):
            boxes[match[1]] = (match[2], dot_text(match[3]))
        else:
            match = DOT_EDGE.match(line)
            assert match, line
            edges.append((match[1], match[2], dot_text(match[3])))
    return boxes, edges


def dot_text(label: str) -> str:
    """What Graphviz shows for a label: escapes, then entities."""
    return html.unescape(re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], label))


def parse_mermaid(text: str) -> tuple[dict[str, tuple[str, str]], list[tuple[str, str, str]]]:
    first, *lines = text.split("\n")
    assert first == "flowchart TD"
    boxes, edges = {}, []
    for line in lines:
        if match := MERMAID_NODE.match(line):
            assert (match[2], match[4]) in (("([", "])"), ("[", "]"))
            boxes[match[1]] = ("ellipse" if match[2] == "([" else "box", mermaid_text(match[3]))
        else:
            match = MERMAID_EDGE.match(line)
            assert match, line
            edges.append((match[1], match[3], mermaid_text(match[2])))
    return boxes, edges


def mermaid_text(label: str) -> str:
    """What Mermaid shows for a label: line breaks, its entities; no Markdown, no markup."""
    assert not label.startswith("`")
    bare = label.replace("<br/>", "\n")
    assert not set('<>"`&') & set(bare)
    return re.sub(r"#(\w+);", lambda m: html.unescape(f"&{'#' * m[1].isdigit()}{m[1]};"), bare)


def visible(name: str) -> str:
    """A name as it is shown: control characters as escapes, line breaks as they are."""
    return re.sub(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]",
        lambda m: m[0].encode("unicode_escape").decode(),
        name,
    )


def check(frozen: FrozenGraph) -> None:
    dot, mermaid = to_dot(frozen), to_mermaid(frozen)
    boxes, edges = parse_dot(dot)
    assert parse_mermaid(mermaid) == (boxes, edges)
    buffers = [frozen.tensors[u] for u in (*frozen.inputs, *frozen.outputs)]
    assert sum(shape == "ellipse" for shape, _ in boxes.values()) == len(buffers)
    assert sum(shape == "box" for shape, _ in boxes.values()) == len(frozen.nodes)
    for i, spec in enumerate(buffers):
        shown = boxes[f"t{i}"][1]
        assert shown.startswith(visible(spec.name) or f"uid {spec.uid}")
        assert f"{spec.data_type.json}[{','.join(map(str, spec.dims))}]" in shown
    scalars = 0
    for i, node in enumerate(frozen.nodes):
        shown = boxes[f"n{i}"][1]
        assert shown.startswith(f"{visible(node.label)}\n{node.op.NAME}")
        for port, uid in node.inputs.items():
            if frozen.tensors[uid].value is not None:
                scalars += 1
                assert f"\n{port} = " in shown
                assert repr(frozen.tensors[uid].value) in shown
    # An edge for each operand that is no scalar, and for each result with a buffer.
    assert {end for edge in edges for end in edge[:2]} <= set(boxes)
    operands = sum(len(n.inputs) for n in frozen.nodes) - scalars
    assert len(edges) == operands + len(frozen.outputs)
    for i in range(len(frozen.inputs)):
        assert any(a == f"t{i}" for a, _, _ in edges)


@settings(max_examples=60)
@given(data=st.data())
def test_random_graphs(recipe: Callable[..., Any], data: st.DataObject) -> None:
    g, _ = recipe(data.draw).build(names=random.Random(data.draw(st.integers(0, 9))))
    frozen = g.freeze()
    check(frozen)
    assert (g.to_dot(), g.to_mermaid()) == (to_dot(frozen), to_mermaid(frozen))


def named(name: str) -> Graph:
    g = Graph(name, io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(1, 8, 4, 4), strides=channels_last_strides((1, 8, 4, 4)), name=name)
    y = g.relu(x, name=name).set_name(name)
    g.mul(y, 0.5, name=name).set_output().set_name(name)
    return g


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_names(name: str) -> None:
    g = named(name)
    listing = repr(g)
    assert len(listing.splitlines()) == 3
    check(g.freeze())
    assert len(repr(g).splitlines()) == len(repr(g.freeze()).splitlines()) == 3


@given(st.text())
def test_any_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    check(named(name).freeze())


def test_a_picture_in_full() -> None:
    g = Graph("net", io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(1, 8, 4, 4), strides=channels_last_strides((1, 8, 4, 4)), name="x")
    y = g.relu(x, name="act")
    g.mul(y, 0.5).set_output().set_uid(9)
    assert (
        to_dot(g.freeze())
        == r"""digraph "net" {
  node [fontname=sans];
  t0 [shape=ellipse, label="x\nhalf[1,8,4,4] channels-last"];
  t1 [shape=ellipse, label="uid 9\nhalf[1,8,4,4] channels-last"];
  n0 [shape=box, label="act\npointwise RELU_FWD"];
  n1 [shape=box, label="pointwise_1\npointwise MUL\nin_1 = float 0.5"];
  t0 -> n0 [label="in_0"];
  n0 -> n1 [label="in_0: float[1,8,4,4] channels-last"];
  n1 -> t1 [label="out_0"];
}"""
    )
    assert (
        to_mermaid(g.freeze())
        == """flowchart TD
  t0(["x<br/>half[1,8,4,4] channels-last"])
  t1(["uid 9<br/>half[1,8,4,4] channels-last"])
  n0["act<br/>pointwise RELU_FWD"]
  n1["pointwise_1<br/>pointwise MUL<br/>in_1 = float 0.5"]
  t0 -->|"in_0"| n0
  n0 -->|"in_0: float[1,8,4,4] channels-last"| n1
  n1 -->|"out_0"| t1"""
    )


def test_the_listing_before_and_after_freezing() -> None:
    g = Graph("net", io_data_type="half")
    x = g.tensor(dims=(1, 2, 4), name="x")
    w = g.tensor(dims=(3, 2, 1), uid=5)
    y = g.conv_fprop(x, w, name="conv")
    y = g.mul(y, 0.5)
    g.reduction(y, mode="add", axes=2, name="sum").set_output()
    assert (
        repr(g)
        == """\
Graph 'net' (io half, intermediate unset, compute unset)
  conv: %2: half[1,3,4] = conv_fprop(x=x: half[1,2,4], w=#5: half[3,2,1])
  pointwise_1: %4: half[1,3,4] = pointwise MUL(in_0=%2: half[1,3,4], in_1=0.5)
  sum: %5: half[1,3,1] (output) = reduction ADD(x=%4: half[1,3,4])"""
    )
    frozen = g.freeze()
    assert (
        repr(frozen)
        == describe(frozen)
        == """\
FrozenGraph 'net' (io half, intermediate unset, compute unset)
  conv: #2: half[1,3,4] = conv_fprop(x=x: half[1,2,4], w=#5: half[3,2,1])
  pointwise_1: #4: half[1,3,4] = pointwise MUL(in_0=#2: half[1,3,4], in_1=0.5)
  sum: #6: half[1,3,1] (output) = reduction ADD(x=#4: half[1,3,4])"""
    )
    assert "#6: half[1,3,1] (output)" in repr(g)


def test_the_listing_of_a_broken_graph() -> None:
    g = Graph("broken")
    foreign = Graph().tensor()
    g.add(g.tensor(), foreign)
    g.relu(g.scalar(10**5000, data_type="float"))
    assert len(repr(g).splitlines()) == 3
    assert "%?: [?]" in repr(g)
    assert "too many digits" in repr(g)
    assert repr(Graph()) == "Graph '' (io unset, intermediate unset, compute unset)"


@pytest.mark.parametrize(
    ("dims", "strides", "expected"),
    [
        ((2, 3, 4, 5), contiguous_strides((2, 3, 4, 5)), "contiguous"),
        ((2, 3, 4, 5), channels_last_strides((2, 3, 4, 5)), "channels-last"),
        ((2, 1, 4, 5), channels_last_strides((2, 1, 4, 5)), "contiguous"),  # the same thing
        ((2, 3), (1, 2), "strides [1, 2]"),
        ((1, 1), (7, 9), "contiguous"),
    ],
)
def test_names_of_layouts(dims: Any, strides: Any, expected: str) -> None:
    assert layout_name(dims, strides) == expected


def test_dynamic_dims_are_told_with_their_range() -> None:
    g = Graph("open", io_data_type="float")
    n = g.dynamic("n", range=(1, 64), example=4)
    x = g.tensor(dims=(n, 3, 2), name="x")
    g.reshape(x, (-1, 2)).set_output().set_name("y")
    text = str(g.freeze())
    assert "\n  n: 1 to 64\n" in text
    assert "x: float[n=4,3,2]" in text
    assert "y: float[12*,2] (output)" in text  # follows from n, in a way that has no name
    assert "x: float[n=4,3,2]" in str(g)
    assert "n=4,3,2" in g.to_mermaid()
