# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree bench``: a real case, who takes part, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from here_and_now import contestant
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.provider.cli import bench as bench_module
from hipdnn_iree.provider.sweep.bench_rows import read_results
from hipdnn_iree.provider.sweep.contestants import Contestant
from json_output import checked
from page_parts import Parsed, needs_nothing

Cli = Callable[..., Any]

SUITE = """
title: small ones
threads: 1
cases:
  - name: chain
    tags: [fused]
    tensors: {x: {dims: [8, 16]}, b: {dims: [1, 16]}}
    nodes: [{op: add, in: [x, b], out: y}, {op: relu, in: y, out: z}]
  - name: whole
    io: int8
    compute: int32
    tensors: {a: {dims: [4, 8]}, b: {dims: [8, 4]}}
    nodes: [{op: matmul, in: [a, b], out: c, type: int32}]
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE, encoding="utf-8")
    return path


def test_a_real_case(cli: Cli, suite: Path, tmp_path: Path) -> None:
    output, page = tmp_path / "results.json", tmp_path / "results.html"
    words = ["bench", suite, "--engines", "iree,reference,torch", "--seconds", "0.01"]
    found = cli(*words, "--baseline", "reference", "--json", "-o", output, "--html", page)
    data = found.json()
    assert checked(json.loads(output.read_text(encoding="utf-8"))) == data
    needs_nothing(page.read_text(encoding="utf-8"))
    drawn = Parsed(page.read_text(encoding="utf-8"))
    assert len(drawn.of("g", "heading")) == 2
    assert len(drawn.of("g", "bar")) == 6
    described = {key for keys in bench_module.JSON for key in keys.split(", ")}
    assert set(data) == described
    assert (found.code, data["ok"], data["threads"]) == (0, True, 1)
    assert (data["engines"], data["baseline"]) == (["iree", "reference", "torch"], "reference")
    assert data["machine"]["processors"] >= 1
    assert data["versions"]["lowering"]
    chain, whole = data["cases"]
    assert (chain["name"], chain["tags"]) == ("chain", ["fused"])
    iree = chain["engines"]["iree"]
    assert (iree["engine"], iree["dispatches"], iree["ok"]) == ("IREE_JIT_ENGINE", 1, True)
    assert iree["max_rel_error"] < 1e-6
    assert 0 < iree["best_us"] <= iree["median_us"]
    assert len(iree["rounds_us"]) >= 5
    assert iree["calls"] >= 3 * len(iree["rounds_us"])
    assert chain["ratio"] > 0
    (decline,) = {d["rule"] for d in whole["engines"]["torch"]["declined"]} - {"TORCH-ENG-01"}
    assert decline == "TORCH-ENG-06"
    assert data["geomean_fused"] == pytest.approx(chain["ratio"])
    assert data["geomean"] == pytest.approx((chain["ratio"] * whole["ratio"]) ** 0.5)
    assert data["worst"]["name"] in ("chain", "whole")
    for row in read_results(output).rows:  # a report has the columns that one of a sweep has
        assert row.op
        assert row.dtype == {"chain": "float", "whole": "int8"}[row.case]
        assert (row.work is not None) == (row.status == "ok")
    assert "[2/2] " in found.err
    assert "] whole: iree 0." in found.err


def test_the_plain_form_in_a_table(cli: Cli, suite: Path) -> None:
    words = ["--engines", "iree,iree-plain", "--case", "fus", "--seconds", "0", "--threads", "2"]
    found = cli("bench", suite, *words)
    assert found.code == 0
    head, row = found.out.splitlines()[:2]
    assert head.split()[:4] == ["case", "iree", "ms", "iree-plain"]
    assert row.startswith("chain ")
    assert "iree / iree-plain, geometric mean of fused: " in found.out
    assert "worst: chain " in found.out


WRONG = """
cases:
  - name: swish
    nodes:
      - op: custom_op
        out: y
        mlir: |-
          func.func @{FUNC_NAME}(%x: {IN0_TYPE}) -> {OUT0_TYPE} {
            %y = torch.aten.relu %x : {IN0_TYPE} -> {OUT0_TYPE}
            return %y : {OUT0_TYPE}
          }
        inputs: [[3, 33]]
        outputs: 1
        reference: swish
    results: {y: {dims: [3, 33]}}
  - {name: right, op: relu, x: [3, 33]}
"""


def test_wrong_results_are_told(cli: Cli, tmp_path: Path) -> None:
    """A custom op whose code is not what its reference says."""
    path = tmp_path / "wrong.yaml"
    path.write_text(WRONG, encoding="utf-8")
    found = cli("bench", path, "--engines", "iree,reference", "--seconds", "0", "--json")
    data = found.json()
    assert (found.code, data["ok"]) == (1, False)
    swish, right = data["cases"]
    assert swish["engines"]["iree"]["ok"] is False
    assert swish["engines"]["iree"]["max_rel_error"] > 0.01
    assert "median_us" not in swish["engines"]["iree"]
    assert swish["ratio"] is None
    assert "swish: iree WRONG (error " in found.err
    assert swish["engines"]["reference"]["ok"]
    assert right["engines"]["iree"]["ok"]
    assert right["ratio"] > 0
    assert data["worst"]["name"] == "right"


REFUSED: dict[str, list[str]] = {
    "unknown engine 'cudnn'": ["--engines", "cudnn"],
    "wanted names, each once": ["--engines", "iree,iree"],
    "wanted one of reference": ["--engines", "iree,reference", "--baseline", "torch"],
    "matches none of chain, whole": ["--case", "^conv"],
    "is no pattern": ["--case", "("],
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(cli: Cli, suite: Path, text: str) -> None:
    found = cli("bench", suite, *REFUSED[text])
    assert found.code == 2
    assert text in found.err


def test_a_target_without_a_device(cli: Cli, suite: Path) -> None:
    found = cli("bench", suite, "--target", "gfx942")
    assert found.code == 3
    assert "gfx942 cannot run here: no " in found.err


def test_a_bad_suite(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("cases: [{name: a}]", encoding="utf-8")
    found = cli("bench", tmp_path / "bad.yaml", "--json")
    assert found.code == 2
    assert found.json()["error"]["problems"][0]["rule"] == "BENCH-02"
    assert cli("bench", tmp_path / "none.yaml").code == 2


def test_names() -> None:
    assert contestant("torch").native
    assert not contestant("torch-engine").native
    assert contestant("iree-plain").settings["compiler_strategies"] == "plain"
    assert contestant("policy:order") == Contestant(name="policy:order", policy="order")
    assert contestant("IREE_JIT_ENGINE").engine == "IREE_JIT_ENGINE"
    with pytest.raises(SettingError, match="or one of iree, iree-plain"):
        contestant("nobody")


def test_a_trace_has_what_the_processes_of_the_cases_did(
    cli: Cli, suite: Path, tmp_path: Path
) -> None:
    file = tmp_path / "bench.trace.json"
    words = ["bench", suite, "--engines", "iree,reference", "--case", "chain", "--seconds", "0"]
    found = cli(*words, "--trace", file)
    assert found.code == 0
    data = json.loads(file.read_text(encoding="utf-8"))
    events = [event for event in data["traceEvents"] if event["ph"] == "X"]
    own = {e["args"]["name"] for e in data["traceEvents"] if e["name"] == "process_name"}
    assert {"hipdnn-iree", "builds, checks and times cases"} <= own
    (whole,) = [e for e in events if e["cat"] == "command"]
    cases = {e["name"]: e for e in events if e["cat"] == "case"}
    parts = {"chain: iree", "chain: reference", "chain: in turns"}
    assert set(cases) == {*parts, "reference", "compare", "time"}
    for part in parts:
        assert cases[part]["pid"] != whole["pid"]
        assert whole["ts"] <= cases[part]["ts"]
        assert cases[part]["ts"] + cases[part]["dur"] <= whole["ts"] + whole["dur"]
    built = [e for e in events if e["name"] == "build" and e["pid"] == cases["chain: iree"]["pid"]]
    assert built
    # Nothing is recorded between the calls that are timed.
    timed = cases["time"]
    assert not [
        e
        for e in events
        if e["cat"] == "execute" and timed["ts"] <= e["ts"] <= timed["ts"] + timed["dur"]
    ]
