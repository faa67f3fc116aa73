# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``show`` prints every graph that can be decoded, with the rules that it breaks as remarks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
FORMATS = ("text", "json", "dot", "mermaid")


def without(name: str, data: dict[str, Any]) -> None:
    """Break a graph in one way."""
    tensors, (node, *_) = data["tensors"], data["nodes"]
    match name:
        case "no nodes":
            data["nodes"] = []
        case "dims that do not fit":
            tensors[0]["dims"] = [7, 7, 7, 7]
        case "extents of zero":
            for tensor in tensors:
                tensor["dims"] = [0, 0, 0, 0]
        case "no dims":
            for tensor in tensors:
                tensor["dims"], tensor["strides"] = [], []
        case "strides of another rank":
            tensors[0]["strides"] = [1]
        case "a port less":
            node["inputs"]["in_1_tensor_uid"] = None
        case "written twice":
            data["nodes"].append(node)
        case "a cycle":
            first, last = data["nodes"]
            first["inputs"]["in_0_tensor_uid"] = last["outputs"]["out_0_tensor_uid"]
        case "no output":
            for tensor in tensors:
                tensor["virtual"] = True
        case "a number that does not fit":
            tensors[0] |= {"value_type": "Float32Value", "value": 1e30, "data_type": "half"}


BROKEN = (
    *("no nodes", "dims that do not fit", "extents of zero", "no dims"),
    *("strides of another rank", "a port less", "written twice", "a cycle"),
    *("no output", "a number that does not fit"),
)


@pytest.fixture(params=BROKEN)
def broken(request: pytest.FixtureRequest, graphs: Path, tmp_path: Path) -> Path:
    data = json.loads((graphs / "add.json").read_text(encoding="utf-8"))
    without(request.param, data)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_a_broken_graph_is_shown(cli: Cli, broken: Path) -> None:
    problems = cli("explain", broken, "--json").json()["error"]["problems"]
    assert problems
    for kind in FORMATS:
        found = cli("show", broken, "--format", kind)
        assert found.code == 0, found.err
        lines = found.err.splitlines()
        assert [line.startswith("remark: ") for line in lines] == [True] * len(problems)
        assert all(f"[{p['rule']}]" in line for p, line in zip(problems, lines, strict=True))
        assert found.out.strip()
    # What is printed is the same graph: all of its nodes, and it breaks the same rules.
    again = broken.with_name("again.json")
    again.write_text(cli("show", broken, "--json").out)
    before, after = (json.loads(path.read_text()) for path in (broken, again))
    assert len(after["nodes"]) == len(before["nodes"])
    assert len(after["tensors"]) == len(before["tensors"])
    rules = [p["rule"] for p in cli("explain", again, "--json").json()["error"]["problems"]]
    assert rules == [p["rule"] for p in problems]


@pytest.mark.parametrize("kind", ["plan", "torch", "digest", "bin"])
def test_what_needs_a_sound_graph_says_so(
    cli: Cli, graphs: Path, tmp_path: Path, kind: str
) -> None:
    data = json.loads((graphs / "add.json").read_text(encoding="utf-8"))
    without("extents of zero", data)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(data))
    found = cli("show", path, "--format", kind, "-o", tmp_path / "out")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("error [E100]: graph 'add' breaks ")
    assert not (tmp_path / "out").exists()
