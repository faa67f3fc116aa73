# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs as pictures: every node and edge is there, names are only text, colours say who serves."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.graph import Graph as ModelGraph
from hipdnn_iree.provider.pages.diagram import MOST_BOXES, Arrow, Box, Diagram
from hipdnn_iree.provider.pages.graph_diagram import Served, draw_frozen, draw_unfrozen
from hipdnn_iree.provider.pages.layers import GAP_X, place
from hipdnn_iree.provider.pages.markup import Markup, element, visible
from hipdnn_iree.provider.pages.page import alone
from page_parts import NASTY, Parsed, drawn, title


def residual() -> Graph:
    g = Graph("block", io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(2, 8, 6, 6), name="x")
    w = g.tensor(dims=(8, 8, 3, 3), name="w")
    y = g.conv_fprop(x, w, pre_padding=(1, 1), post_padding=(1, 1), name="conv")
    y = g.relu(g.mul(y, 0.5, name="halve"), name="relu")
    g.add(y, x, name="skip").set_output().set_name("y")
    return g


def chain(count: int) -> Graph:
    g = Graph("chain", io_data_type="float")
    last = [g.tensor(dims=(4, 8), name="x")]
    pick = random.Random(1)
    for i in range(count):
        last.append(g.add(pick.choice(last[-5:]), pick.choice(last[-5:]), name=f"add{i}"))
    read = {id(t) for node in g.nodes for t in node.inputs.values()}
    for tensor in last[1:]:
        if id(tensor) not in read:
            tensor.set_output()
    return g


def svg(graph: Graph, served: Served | None = None) -> str:
    diagram = draw_frozen(graph.freeze(), served).diagram
    assert diagram is not None
    return alone(diagram)


# ---------------------------------------------------------------------------- places


def crossings_of_boxes(
    sizes: list[tuple[float, float]], edges: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the pairs of boxes that overlap."""
    centres = place(sizes, edges).centres
    boxes = [
        (x - w / 2, y, x + w / 2, y + h) for (x, y), (w, h) in zip(centres, sizes, strict=True)
    ]
    return [
        (i, j)
        for i, a in enumerate(boxes)
        for j, b in enumerate(boxes[:i])
        if a[0] < b[2] - 0.01 and b[0] < a[2] - 0.01 and a[1] < b[3] - 0.01 and b[1] < a[3] - 0.01
    ]


@pytest.mark.parametrize("seed", range(6))
def test_boxes_do_not_overlap_and_edges_point_down(seed: int) -> None:
    pick = random.Random(seed)
    count = 60
    sizes = [(pick.uniform(40, 200), pick.uniform(20, 60)) for _ in range(count)]
    edges = [(pick.randrange(max(0, b - 9), b), b) for b in range(1, count) for _ in range(2)]
    assert crossings_of_boxes(sizes, edges) == []
    found = place(sizes, edges)
    assert all(found.centres[a][1] + sizes[a][1] < found.centres[b][1] for a, b in edges)
    assert all(w / 2 <= x + 0.01 for (x, _), (w, _) in zip(found.centres, sizes, strict=True))
    assert all(x + w / 2 <= found.width + 0.01
               for (x, _), (w, _) in zip(found.centres, sizes, strict=True))  # fmt: skip
    # A long edge passes each layer in between, from top to bottom.
    for route, (a, b) in zip(found.routes, edges, strict=True):
        levels = [found.centres[a][1], *(top for _, top, _ in route), found.centres[b][1]]
        assert all(one < two + sizes[b][1] for one, two in pairwise(levels))


def test_circles_loops_and_double_edges_have_places() -> None:
    sizes = [(50.0, 20.0)] * 4
    edges = [(0, 1), (1, 2), (2, 0), (3, 3), (0, 1)]
    found = place(sizes, edges)
    assert len(found.centres) == 4
    assert len(found.routes) == 5
    assert crossings_of_boxes(sizes, edges) == []
    assert place([], []).centres == []
    alone_box = place([(50.0, 20.0)], [])
    assert (alone_box.centres, alone_box.width, alone_box.height) == ([(25.0, 0.0)], 50.0, 20.0)


def test_a_tree_is_drawn_without_crossings() -> None:
    edges = [((i - 1) // 2, i) for i in range(1, 15)]
    pick = random.Random(3)
    names = list(range(15))
    pick.shuffle(names)
    found = place([(60.0, 20.0)] * 15, [(names[a], names[b]) for a, b in edges])
    for depth in range(1, 4):
        layer = range(2**depth - 1, 2 ** (depth + 1) - 1)
        parents = sorted((found.centres[names[(i - 1) // 2]][0], found.centres[names[i]][0])
                          for i in layer)  # fmt: skip
        assert [child for _, child in parents] == sorted(child for _, child in parents)
        xs = sorted(found.centres[names[i]][0] for i in layer)
        assert all(b - a >= 60 + GAP_X - 0.01 for a, b in pairwise(xs))


# ---------------------------------------------------------------------------- graphs


def test_every_node_buffer_and_edge_is_there() -> None:
    nodes, buffers, arrows = drawn(svg(residual()))
    assert [title(n).splitlines()[0] for n in nodes] == ["conv", "halve", "relu", "skip"]
    assert [title(b).splitlines()[0] for b in buffers] == ["x", "w", "y"]
    names = {n.get("data-box"): title(n).splitlines()[0] for n in (*nodes, *buffers)}
    ends = [(names[a.get("data-from")], names[a.get("data-to")]) for a in arrows]
    assert sorted(ends) == sorted(
        [("x", "conv"), ("w", "conv"), ("conv", "halve"), ("halve", "relu"), ("relu", "skip"),
         ("x", "skip"), ("skip", "y")]
    )  # fmt: skip
    text = svg(residual())
    # Dims and bytes; a scalar stands in its node; ports where there are several.
    for shown in ("half 2×8×6×6", "1.12 KiB", "in_1 = float 0.5", ">x<", ">w<", "conv_fprop"):
        assert shown in text


def test_three_hundred_nodes_are_drawn() -> None:
    graph = chain(300)
    text = svg(graph)
    nodes, _, arrows = drawn(text)
    frozen = graph.freeze()
    assert len(nodes) == len(frozen.nodes) == 300
    assert len(arrows) == sum(len(n.inputs) for n in frozen.nodes) + len(frozen.outputs)
    assert len(text) < 2_000_000
    assert len(graph._repr_html_()) < 2_000_000


def test_too_many_nodes_are_no_picture() -> None:
    assert len(chain(MOST_BOXES)._repr_html_()) < 2_000_000
    drawing = draw_unfrozen(chain(MOST_BOXES + 1))
    assert drawing.diagram is None
    assert "1,001 nodes are too many" in chain(MOST_BOXES + 1)._repr_html_()


def test_engines_and_dispatches_are_colours() -> None:
    served = Served(
        engines={0: "A_ENGINE", 1: "A_ENGINE", 2: "B_ENGINE", 3: "B_ENGINE"},
        dispatches={0: (0, 1, 5), 1: (1,), 2: (2, 3, 4)},
    )
    text = svg(residual(), served)
    nodes, _, _ = drawn(text)
    assert [n.get("data-colour") for n in nodes] == ["0", "0", "1", "1"]
    tints = [n.get("data-tint") for n in nodes]
    # The convolution is fused with what takes its result; dispatch 5 only reads the same image.
    assert tints[0] == tints[1] is not None
    assert tints[2] not in (None, tints[0])
    assert tints[3] is None
    fills = [e.get("fill") for n in nodes for e in n if e.get("class", "").startswith("shape")]
    assert fills[0] == fills[1] != fills[2] != fills[3]
    for shown in (">#0 … #5<", ">#1<", ">#2 … #4<", ">A_ENGINE<", ">B_ENGINE<"):
        assert shown in text


def test_dynamic_dims_have_names() -> None:
    g = Graph(io_data_type="float")
    n = g.dynamic("n", range=(1, 64))
    g.relu(g.tensor(dims=(n, 3), name="x")).set_output()
    text = svg(g)
    assert "float n×3" in text
    assert "KiB" not in text


def test_a_broken_graph_is_drawn_with_its_problems() -> None:
    g = ModelGraph("broken", io_data_type="float")  # which leaves all problems to freeze
    a, b = g.tensor(dims=(2, 3), name="a"), g.tensor(dims=(2, 3), name="b")
    g.relu(g.matmul(a, b, name="product"), name="after").set_output()
    found = draw_unfrozen(g)
    assert found.diagram is not None
    assert [p.rule for p in found.problems] == ["MATMUL-02"]
    assert [box.bad for box in found.diagram.boxes][:2] == [True, False]
    wrong = [n for n in drawn(alone(found.diagram))[0] if "wrong" in ET.tostring(n).decode()]
    assert [title(n).splitlines()[0] for n in wrong] == ["product"]


def test_a_graph_in_the_making_is_shown() -> None:
    """Without nodes, without an output, with a tensor of unknown dims."""
    assert "No nodes." in Graph("new")._repr_html_()
    g = Graph("half done", io_data_type="float")
    g.relu(g.tensor(name="open"), name="first")
    page = g._repr_html_()
    assert "GRAPH-02" in page
    assert "Graph &#x27;half done&#x27;: 1 node, io float<" in page
    assert "float ?" in page
    Parsed(page)


# ---------------------------------------------------------------------------- names are text


@pytest.fixture
def odd() -> Graph:
    g = Graph(NASTY, io_data_type="float")
    x = g.tensor(dims=(4, 3), name=NASTY)
    y = g.relu(x, name=NASTY)
    g.add(y, 2.0, name="<svg onload=alert(1)>").set_output().set_name("]]></svg>")
    return g


@pytest.mark.parametrize("how", [svg, lambda g: g._repr_html_()], ids=["svg", "html"])
def test_names_are_only_text(odd: Graph, how: Callable[[Graph], str]) -> None:
    text = how(odd)
    page = Parsed(text)
    assert page.of("script") == []
    assert not [1 for _, attributes, _ in page.elements if "onload" in attributes]
    # They are all there, in what is shown by the pointer, with what is no text as escapes.
    assert visible(NASTY) in page.texts("title")[1]
    assert "\\x1b[31m" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\u2028\u202e]", text)
    assert visible("half \ud800") == "half \\ud800"  # which names in files may be


def test_pictures_are_xml_whatever_the_names(odd: Graph) -> None:
    nodes, buffers, arrows = drawn(svg(odd))
    assert (len(nodes), len(buffers), len(arrows)) == (2, 2, 3)


def test_markup_is_escaped_once() -> None:
    inner = element("b", 'x < "y"')
    assert element("p", inner, " & ", 1.5, class_="a", data_x='"', hidden=True, open=False) == (
        '<p class="a" data-x="&quot;" hidden><b>x &lt; &quot;y&quot;</b> &amp; 1.5</p>'
    )
    assert element("p", None, Markup("<i>")) == "<p><i></p>"
    with pytest.raises(TypeError, match="dict is neither text nor markup"):
        element("p", {})


def test_a_diagram_says_what_its_colours_are() -> None:
    one = Diagram(title="t", boxes=[Box(title="b", colour=1)], arrows=[], keys=("a", "<b>"))
    root = ET.fromstring(alone(one))
    legend = [e for e in root.iter() if e.get("class") == "legend"]
    assert ["".join(e.itertext()) for e in legend] == ["a<b>"]
    loop = Diagram(title="t", boxes=[Box(title="b")], arrows=[Arrow(start=0, end=0, port="p")])
    assert len(drawn(alone(loop))[2]) == 1
