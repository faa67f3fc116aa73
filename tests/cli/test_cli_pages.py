# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``--html``, ``--trace`` and the pictures of ``show``, as they are given on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import Graph
from page_parts import Parsed, drawn, needs_nothing

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "sections"),
    [
        (["explain"], ["Engines", "Graph", "Dispatches", "Code"]),
        (["inspect", "--target", "cpu"], ["Graph", "Dispatches"]),
    ],
    ids=lambda value: str(value[0]),
)
def test_pages(
    cli: Cli, graphs: Path, tmp_path: Path, words: list[str], sections: list[str]
) -> None:
    file = tmp_path / "page.html"
    found = cli(words[0], graphs / "add.json", *words[1:], "--html", file, "--json")
    assert found.code == 0, found.err
    assert f"wrote {file}" in found.err
    found.json()
    page = file.read_text(encoding="utf-8")
    needs_nothing(page)
    assert Parsed(page).texts("h2") == sections
    assert "#0" in Parsed(page).text
    assert len(page) < 2_000_000


def test_the_page_of_tune(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    words = ["--engines", "reference", "--budget", "0.01", "--no-store", "--html", file]
    found = cli("tune", graphs / "add.json", *words)
    assert found.code == 0, found.err
    page = file.read_text(encoding="utf-8")
    needs_nothing(page)
    assert len(Parsed(page).of("g", "bar")) == 1


def test_a_page_that_cannot_be_written(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    found = cli("explain", graphs / "add.json", "--html", tmp_path / "no" / "page.html")
    assert found.code == 2
    assert "FILE-01" in found.err or "no/page.html" in found.err


def test_pictures_of_show(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    svg = cli("show", graphs / "add.json", "--format", "svg")
    assert svg.code == 0, svg.err
    nodes, buffers, arrows = drawn(svg.out)
    assert len(nodes) >= 1 <= len(buffers)
    assert len(arrows) >= 2
    assert all(node.get("data-tint") is not None for node in nodes)
    file = tmp_path / "graph.html"
    page = cli("show", graphs / "add.json", "--format", "html", "-o", file)
    assert page.code == 0, page.err
    needs_nothing(file.read_text(encoding="utf-8"))
    assert "Dispatches" in Parsed(file.read_text(encoding="utf-8")).texts("h2")


def test_a_broken_graph_is_shown_with_its_problems(cli: Cli, tmp_path: Path) -> None:
    g = Graph("broken", io_data_type="float")
    g.relu(g.add(g.tensor(dims=(2, 3)), g.tensor(dims=(2, 3)), name="sum")).set_output()
    file = tmp_path / "broken.json"
    data = json.loads(g.to_json())
    data["tensors"][0]["dims"] = [2, 4]
    file.write_text(json.dumps(data), encoding="utf-8")
    found = cli("show", file, "--format", "html")
    assert found.code == 0, found.err
    assert "TENSOR-06" in found.err
    assert "This graph breaks rules:" in Parsed(found.out).text
    assert len(drawn(cli("show", file, "--format", "svg").out)[0]) == 2


def test_a_trace_of_run(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    found = cli("run", graphs / "add.json", "--repeat", "3", "--trace", file, "--json")
    assert found.code == 0, found.err
    assert f"wrote {file}" in found.err
    found.json()
    data = json.loads(file.read_text())
    events = [event for event in data["traceEvents"] if event["ph"] == "X"]
    assert events[0]["name"].endswith("run")
    names = [event["name"] for event in events]
    assert names.count("execute") == 3
    assert [e for e in events if e["cat"] == "dispatch" and e["args"]["nodes"]]
    last = events[0]["ts"] + events[0]["dur"]
    assert all(e["ts"] + e["dur"] <= last + 1e-3 for e in events)


def test_a_trace_of_what_iree_does_not_tell(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    found = cli("run", graphs / "add.json", "--engine", "reference", "--trace", file)
    assert found.code == 0, found.err
    data = json.loads(file.read_text())
    assert "REFERENCE_ENGINE does not say" in data["otherData"]["dispatches"]


def test_a_trace_of_compile_is_written_after_an_error(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    found = cli("compile", tmp_path / "no.json", "--target", "cpu", "--trace", file)
    assert found.code == 2
    names = [event["name"] for event in json.loads(file.read_text())["traceEvents"]]
    assert any(name.endswith("compile") for name in names)
