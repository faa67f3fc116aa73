# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops composed at random: what must not change a result does not (``scripts/fuzz_graphs``)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.ops import OPS
from hipdnn_iree.jit import support
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.sweep.fuzz.random_graphs import STYLES, random_graph

from tools.fuzz import graph_checks as fuzz

CPU, MI300 = Target.parse("cpu"), Target.parse("gfx942")


def test_equal_seeds_give_equal_graphs() -> None:
    one, two = (random_graph(5).freeze() for _ in range(2))
    assert one.digest == two.digest
    assert len({random_graph(seed).freeze().digest for seed in range(10)}) == 10


def test_graphs_are_valid_and_the_same_in_every_form() -> None:
    seen: set[str] = set()
    for seed in range(40):
        graph = random_graph(seed, style=STYLES[seed % len(STYLES)]).freeze()
        seen |= {node.op.NAME for node in graph.nodes}
        for found in fuzz.check_formats(graph, seed):
            assert found.good, (seed, found)
        for target in (CPU, MI300):
            if not list(support.problems(graph, target)):
                assert lower_graph(graph, target)
    # Custom ops bring code of their own; seldom ones need not come up.
    assert len(set(OPS) - seen) < 6, set(OPS) - seen


@pytest.mark.parametrize("seed", [8, 42, 69])
def test_graphs_run_right_in_several_ways(seed: int) -> None:
    style = STYLES[seed % len(STYLES)]
    graph = random_graph(seed, style=style, nodes=6).freeze()
    for found in fuzz.check_on_cpu(graph, seed, variants=1):
        assert found.good, found
        assert found.unbounded < 0.5


def test_small_graphs_are_right_on_an_emulated_gpu(tmp_path: Path) -> None:
    """Twelve that are served, in one process; `scripts/fuzz_graphs --emulate` takes more."""
    files: list[Path] = []
    for seed in range(9000, 9100):
        graph = random_graph(seed, style=STYLES[seed % len(STYLES)], nodes=3).freeze()
        if not list(support.problems(graph, MI300)):
            files.append(tmp_path / f"{seed}.json")
            files[-1].write_text(dumps(graph), encoding="utf-8")
        if len(files) == 12:
            break
    words = ["-m", "hipdnn_iree", "compile", *files, "--target", "gfx942", "--check", "--json"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300)
    found = json.loads(done.stdout)
    wrong = [row for row in found["graphs"] if not row["targets"][0].get("verified")]
    assert not wrong, (wrong, done.stderr)
    assert found["summary"]["pairs"] == 12
    assert done.returncode == 0


def _small() -> FrozenGraph:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(4, 4))
    y = g.tanh(g.matmul(g.relu(x), g.tensor(dims=(4, 3))))
    g.add(y, 1.0).set_output()
    return g.freeze()


def test_wrong_numbers_and_errors_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _small()

    class Broken:
        attempt = ""
        seconds: ClassVar[dict[str, float]] = {}
        target = Target.parse("cpu")

        def execute(self, buffers: object) -> None:
            """Write nothing."""

    def refused(*_: object, **__: object) -> object:
        raise CompileError("no", stage="compile")

    monkeypatch.setattr(fuzz, "build", lambda *_, **__: Broken())
    (found,) = fuzz.check_on_cpu(graph, 1, variants=0)
    assert found.status == "wrong"
    assert "never written" in found.note
    monkeypatch.setattr(fuzz, "build", refused)
    (found,) = fuzz.check_on_cpu(graph, 1, variants=0)
    assert found.status == "compile-error"
    assert not replace(found, status="differs").good
