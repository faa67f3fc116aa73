# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree explain`` and ``show``: who serves a graph, and what it looks like."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from here_and_now import build
from hipdnn_iree import Graph, load
from hipdnn_iree.provider.cli import explain as explain_module
from hipdnn_iree.provider.engine_ids import engine_id

Cli = Callable[..., Any]


# ---------------------------------------------------------------------------- explain


def test_hit_and_miss(
    cli: Cli, graphs: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["explain", graphs / "add.json", "--json"]
    about = cli(*words).json()
    assert set(about) == set(explain_module.JSON)
    assert about["chosen"] == {
        "engine": "IREE_JIT_ENGINE",
        "engine_id": str(engine_id("IREE_JIT_ENGINE")),
        "knobs": {},
        "policy": "order",
    }
    iree, _, split, _, reference = about["candidates"]
    estimate = iree.pop("estimate")
    assert iree.pop("estimated_us") == estimate["us"] > estimate["engine"]["call_us"]
    assert {"driver", "opt_level"} <= {knob["name"] for knob in iree.pop("knobs")}
    assert iree == {
        "engine": "IREE_JIT_ENGINE",
        "alias": "iree",
        "engine_id": str(engine_id("IREE_JIT_ENGINE")),
        "served": True,
        "default": True,
        "last_resort": False,
        "reasons": [],
        "measured_us": None,
        "measured": [],
        "parts": None,
    }
    # With PyTorch there is somebody to share the graph with.
    assert {r["rule"] for r in split["reasons"]} <= {"SPLIT-03"}
    assert bool(split["parts"]) == split["served"]
    assert (reference["served"], reference["default"]) == (True, False)
    assert about["cache"]["state"] == "miss"
    assert about["cache"]["miss"]["reason"] == "empty"
    assert about["cache"]["root"] == str(own_cache)

    frozen = load(graphs / "add.json").freeze()
    build(frozen, "cpu")
    about = cli(*words).json()
    assert (about["cache"]["state"], about["cache"]["miss"]) == ("hit", None)
    table = cli(*words[:2])
    assert (table.code, table.err) == (0, "")
    assert "chosen    IREE_JIT_ENGINE by order: the fixed order of engines" in table.out
    assert "policies  config, tuned, order" in table.out
    assert "cache     hit" in table.out
    assert "REFERENCE_ENGINE (reference) serves the graph, and runs only when it is" in table.out
    assert "  knob driver: local-sync (default), local-task" in table.out

    # The ingredient that differs is named.
    about = cli(*words, "--opt-level", "O1").json()
    miss = about["cache"]["miss"]
    assert miss["reason"] == "differs"
    assert "knob:compiler.opt_level" in {d["label"] for d in miss["differences"]}
    table = cli(*words[:2], "--opt-level", "O1").out
    assert "knob:compiler.opt_level: 'O3' -> 'O1'" in table
    about = cli(*words, "--cache", "off").json()
    assert (about["cache"]["state"], about["cache"]["miss"]["reason"]) == ("off", "off")
    elsewhere = cli(*words[:2], "--target", "gfx942")
    assert "of this graph for this target yet (for cpu" in elsewhere.out
    assert "µs for a call (call" in elsewhere.out
    other = cli("explain", graphs / "bf16.json", "--json").json()
    assert other["cache"]["miss"]["reason"] == "new graph"


def test_declines_have_reasons(cli: Cli, graphs: Path) -> None:
    found = cli("explain", graphs / "declined.json", "--target", "gfx942", "--json")
    assert found.code == 3
    about = found.json()
    assert (about["chosen"], about["cache"]) == (None, None)
    assert about["why"] == "every engine of the defaults declines"
    iree, *_, reference = about["candidates"]
    (reason,) = iree["reasons"]
    assert {k: reason[k] for k in ("rule", "node", "port", "got")} == {
        "rule": "IREE-04",
        "node": "pointwise_0",
        "port": "in_0",
        "got": "a ragged tensor",
    }
    assert {r["rule"] for r in reference["reasons"]} == {"REFERENCE-01", "REFERENCE-02"}
    table = cli("explain", graphs / "declined.json", "--target", "gfx942")
    assert table.code == 3
    assert "chosen    none: every engine of the defaults declines" in table.out
    assert "  pointwise_0.in_0: [IREE-04] got a ragged tensor; wanted" in table.out


def test_a_pinned_engine(cli: Cli, graphs: Path) -> None:
    about = cli("explain", graphs / "add.json", "--engine", "reference", "--json").json()
    assert (about["chosen"]["engine"], about["why"]) == ("REFERENCE_ENGINE", "pinned")
    assert [c["alias"] for c in about["candidates"]] == ["reference"]
    assert about["cache"] is None
    words = ["--engine", "reference", "--target", "gfx942", "--json"]
    found = cli("explain", graphs / "add.json", *words)
    assert found.code == 3
    assert found.json()["why"] == "the pinned engine declines"


# ---------------------------------------------------------------------------- show


def test_formats(cli: Cli, graphs: Path) -> None:
    path = graphs / "conv.json"
    graph = load(path)
    frozen = graph.freeze()
    shown = {
        "text": repr(graph),
        "json": graph.to_json(),
        "dot": graph.to_dot(),
        "mermaid": graph.to_mermaid(),
        "digest": frozen.digest,
    }
    for kind, text in shown.items():
        found = cli("show", path, "--format", kind)
        assert (found.code, found.out, found.err) == (0, f"{text}\n", "")
    assert cli("show", path).out == f"{shown['text']}\n"
    assert cli("show", path, "--json").out == cli("show", path, "--format", "json").out
    for target, form in (("cpu", "torch.aten.slice"), ("gfx942", "torch.aten.convolution")):
        found = cli("show", path, "--format", "torch", "--target", target)
        assert found.out.count("func.func @main") == 1
        assert form in found.out


def test_what_is_shown_can_be_read_again(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    made = tmp_path / "again.json"
    found = cli("show", graphs / "add.json", "--format", "json", "-o", made)
    assert (found.code, found.out, found.err) == (0, "", f"wrote {made}\n")
    first, second = (cli("show", p, "--format", "digest").out for p in (graphs / "add.json", made))
    assert first == second
    assert len(first.strip()) == 64


def test_formats_that_do_not_do(cli: Cli, graphs: Path) -> None:
    found = cli("show", graphs / "add.json", "--json", "--format", "dot")
    assert found.code == 2
    assert "exclude each other" in found.json()["error"]["message"]
    found = cli("show", graphs / "declined.json", "--format", "torch")
    assert found.code == 3
    assert "[IREE-04]" in found.err
    assert cli("show", graphs / "declined.json", "--format", "dot").code == 0
    assert cli("show", graphs / "add.json", "--format", "png").code == 2


def test_names_cannot_harm_the_terminal(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    data = json.loads((graphs / "bf16.json").read_text(encoding="utf-8"))
    data["name"] = "\x1b[2J日本\r\n"
    for tensor in data["tensors"]:
        tensor["name"] = f"{tensor['name']}\x1b]0;x\x07" if tensor["name"] else ""
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    commands = (["show"], ["explain"], ["run"], ["run", "--verify"], ["compile", "--target", "cpu"])
    for words in commands:
        found = cli(*words, path)
        assert found.code == 0, found.err
        assert not set("\x1b\r\x07") & set(found.out + found.err), words
    assert json.loads(cli("show", path, "--json").out)["name"] == data["name"]
    assert cli("run", path, "--json").json()["graph"]["name"] == data["name"]
    again = Graph.from_json(cli("show", path, "--json").out.encode())
    assert again.name == data["name"]
