# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Regret: which strategies take part in a sweep, and what a run says of the default ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from here_and_now import contestant
from hipdnn_iree import Target
from hipdnn_iree.graph_api.errors import NotSupportedError
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.strategies import choose
from hipdnn_iree.provider.cli import sweep_regret
from hipdnn_iree.provider.sweep.case_task import CaseTask, SweepOptions
from hipdnn_iree.provider.sweep.regret import regrets, shares, with_strategies
from hipdnn_iree.provider.sweep.row import read_run
from hipdnn_iree.provider.sweep.suite import read
from sweep_runs import row, write_run

Cli = Callable[..., Any]

SUITE = """
cases:
  - name: conv
    tensors: {x: {dims: [1, 8, 9, 9]}, w: {dims: [8, 8, 3, 3]}}
    nodes: [{op: conv_fprop, in: [x, w], out: y, padding: 1}]
  - {name: add, tensors: {x: {dims: [7, 3]}}, nodes: [{op: add, in: [x, 2], out: y}]}
  - {name: bad, tensors: {a: {dims: [5, 4]}}, nodes: [{op: matmul, in: [a, [3, 2]], out: c}]}
"""


def task(tmp_path: Path, name: str, *engines: str, target: str = "cpu") -> CaseTask:
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    (case,) = (c for c in read(SUITE, check="keep").by_type() if c.name == name)
    return CaseTask(case=case, engines=engines, target=target, threads=1, options=SweepOptions())


def default_of(tmp_path: Path) -> str:
    """Return the strategy of the convolution on this machine."""
    return choose(task(tmp_path, "conv").case.freeze(), Target.parse("cpu"))[0]


def strategy(name: str, op: str = "conv_fprop") -> str:
    return f"iree+{op}.strategy={name}"


def test_all_strategies_that_fit_take_part(tmp_path: Path) -> None:
    found = with_strategies(task(tmp_path, "conv", "iree", "reference"))
    default = default_of(tmp_path)
    fitting = {"direct", "row_im2col", "im2col_gemm", "blocked", "winograd", "img2col"}
    assert found.engines[:2] == ("iree", "reference")
    assert set(map(strategy, fitting - {default})) <= set(found.engines)
    # The default one is `iree` itself; a depthwise one does not fit; `plain` is for comparison.
    assert not {strategy(n) for n in (default, "shifted_sum", "plain")} & set(found.engines)


@pytest.mark.parametrize(
    ("name", "engines"), [("add", ("iree",)), ("bad", ("iree",)), ("conv", ("reference",))]
)
def test_where_there_is_no_choice(tmp_path: Path, name: str, engines: tuple[str, ...]) -> None:
    assert with_strategies(task(tmp_path, name, *engines)).engines == engines


def test_a_contestant_with_a_choice_of_its_own(tmp_path: Path) -> None:
    graph = task(tmp_path, "conv").case.freeze()
    one = contestant(strategy("im2col_gemm"))
    assert (one.engine, one.knobs) == ("iree", {"conv_fprop.strategy": "im2col_gemm"})
    plan = one.build(graph, Target.parse("cpu"), settings())
    assert plan.knobs["conv_fprop.strategy"] == "im2col_gemm"
    for text in (strategy("shifted_sum"), "iree+conv_fprop.size=3"):
        with pytest.raises(NotSupportedError, match="has no such knob for this graph"):
            contestant(text).build(graph, Target.parse("cpu"), settings())


def default(case: str, *rounds_us: float) -> Any:
    return row(case, rounds_us=rounds_us, knobs={"conv_fprop.strategy": "direct", "threads": "1"})


def other(case: str, name: str, *rounds_us: float, **more: Any) -> Any:
    return row(case, engine=strategy(name), rounds_us=rounds_us, **more)


def test_regret_is_the_median_of_the_rounds() -> None:
    rows = [
        default("slow", 30, 60, 20),
        other("slow", "img2col", 10, 15, 10),  # ratios 3, 4 and 2
        other("slow", "row_im2col", 20, 20, 20),
        default("best", 10, 10, 10),
        other("best", "img2col", 11, 9, 12),
    ]
    slow, best = regrets(rows)
    assert (slow.case, slow.default, slow.best) == (
        "slow",
        "conv_fprop=direct",
        "conv_fprop=img2col",
    )
    assert (slow.ratio, slow.default_us, slow.best_us) == (3.0, 30, 10)
    assert (best.case, best.best, best.ratio, best.best_us) == ("best", "", 1.0, 10)
    assert shares([slow, best]) == {
        "within_1.1": 0.5,
        "within_2.0": 0.5,
        "geomean": pytest.approx(3**0.5),
    }


def test_what_does_not_count() -> None:
    slow = default("a", 30, 30, 30)
    assert regrets([slow]) == []  # nothing to compare with
    assert regrets([other("a", "img2col", 1, 1, 1)]) == []  # no default
    counted = other("a", "img2col", 29, 29, 29)
    left_out = [
        other("a", "row_im2col", 1, 1, 1, status="wrong"),
        other("a", "winograd", 1, 1, 1),  # no rule may choose it
        row("a", engine="torch", rounds_us=[1, 1, 1]),
        row("a", engine="iree+opt_level=O1", rounds_us=[1, 1, 1]),
        row("a", engine=strategy("gone"), rounds_us=[1, 1, 1], dtype="half"),
        other("a", "im2col_gemm", 1, 1),  # not of the same rounds
        row("a", engine=strategy("direct"), status="declined"),
    ]
    (found,) = regrets([slow, counted, *left_out])
    assert (found.best, found.ratio) == ("conv_fprop=img2col", pytest.approx(30 / 29))


def test_the_command(cli: Cli, tmp_path: Path) -> None:
    rows = [default("slow", 30, 60, 20), other("slow", "img2col", 10, 15, 10)]
    rows += [default("best", 9, 9, 9), other("best", "img2col", 10, 10, 10)]
    path = write_run(tmp_path / "run.jsonl", rows, tail=b"{")
    found = cli("sweep", "regret", path)
    assert found.code == 0
    assert "conv_fprop=direct" in found.out
    assert "2 cases: 50% within 1.1, 50% within 2.0, geometric mean 1.732" in found.out
    assert "warning: read up to" in found.err
    data = cli("sweep", "regret", path, "--above", "1.5", "--json").json()
    assert [one["case"] for one in data["cases"]] == ["slow"]
    assert data["within_1.1"] == 0.5
    assert set(data) == {key for keys in sweep_regret.JSON for key in keys.split(", ")}


def test_a_run_without_strategies(cli: Cli, tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.jsonl", [default("a", 1, 2, 3)])
    found = cli("sweep", "regret", path)
    assert found.code == 2
    assert "--strategies --perf" in found.err
    assert cli("sweep", "regret", tmp_path / "none.jsonl").code == 2


def test_a_sweep_of_strategies(cli: Cli, tmp_path: Path) -> None:
    task(tmp_path, "conv")
    suite, path = tmp_path / "suite.yaml", tmp_path / "run.jsonl"
    words = ["sweep", suite, "--case", "conv", "--strategies", "--perf", "--seconds", "0.01"]
    found = cli(*words, "--jobs", "1", "-o", path, "--json")
    assert (found.code, found.json()["failed"]) == (0, [])
    engines = {one.engine for one in read_run(path).rows}
    default = default_of(tmp_path)
    others = {"im2col_gemm", "row_im2col", "direct"} - {default}
    assert {"iree", *map(strategy, others)} <= engines
    (one,) = json.loads(cli("sweep", "regret", path, "--json").out)["cases"]
    assert one["default"] == f"conv_fprop={default}"
    assert one["ratio"] >= 1
    assert one["best"].partition("=")[2] not in ("winograd", "plain")
    refused = cli(*words, "--engines", "reference", "-o", tmp_path / "other.jsonl")
    assert refused.code == 2
    assert "--strategies is for engine iree" in refused.err
