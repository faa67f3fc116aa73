# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops composed at random: what must not change a result does not (``hipdnn-iree fuzz``)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from graph_rows import row_of
from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.graph_api.ops import OPS
from hipdnn_iree.jit import support
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.sweep.fuzz.cases import Draw
from hipdnn_iree.provider.sweep.fuzz.forms import other_forms
from hipdnn_iree.provider.sweep.fuzz.random_graphs import STYLES, random_graph
from hipdnn_iree.provider.sweep.fuzz.variants import other_ways

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
        for form, wrong in other_forms(graph, seed):
            assert not wrong, (seed, form, wrong)
        for target in (CPU, MI300):
            if not list(support.problems(graph, target)):
                assert lower_graph(graph, target)
    # Custom ops bring code of their own; seldom ones need not come up.
    assert len(set(OPS) - seen) < 6, set(OPS) - seen


@pytest.mark.parametrize("seed", [8, 42, 69])
def test_graphs_run_right_in_several_ways(seed: int) -> None:
    draw = Draw(seed=seed, style=STYLES[seed % len(STYLES)], nodes=6)
    # Another driver may already run in this process, with another number of threads.
    others = other_ways(draw, CPU, settings(), Random(seed), 2)
    ways = [(draw, "iree"), *(way for way in others if "driver=" not in way[1])]
    assert len(ways) > 1
    for form, engine in ways:
        found = row_of(str(form), engine)
        assert found["status"] in ("ok", "declined"), (form, engine, found)
        if form == draw and engine == "iree":
            assert found["check"]["unbounded"] < found["check"]["elements"] / 2


def test_small_graphs_are_right_on_an_emulated_gpu(tmp_path: Path) -> None:
    """Twelve that are served, in one process; `hipdnn-iree fuzz --emulate` takes more."""
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
