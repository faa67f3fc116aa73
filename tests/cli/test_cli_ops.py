# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``ops``: every operation, and what of it is served where."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.formats.flatbuffer.node_tables import OPS_BY_CODE
from hipdnn_iree.graph_api.ops import OPS
from hipdnn_iree.jit import support
from hipdnn_iree.jit.target import GFX9_ARCHS, Target
from hipdnn_iree.provider.sweep.samples import sample_problems
from hipdnn_iree.provider.sweep.serving import TARGETS, rule_texts

Cli = Callable[..., Any]


def test_wire_codes_are_those_of_the_schema() -> None:
    assert sorted(OPS_BY_CODE) == list(range(1, 24))
    assert {op.NAME: code for code, op in OPS_BY_CODE.items()}.items() >= {
        "batchnorm_inference": 1,
        "pointwise": 2,
        "conv_fprop": 5,
        "conv_dgrad": 6,
        "conv_wgrad": 7,
        "matmul": 9,
        "sdpa": 12,
        "reduction": 18,
        "layernorm_backward": 20,
    }.items()


def test_ops_tell_everything_in_json(cli: Cli) -> None:
    found = cli("ops", "--json")
    assert (found.code, found.err) == (0, "")
    rows = {row["name"]: row for row in found.json()["ops"]}
    assert list(rows) == list(OPS)
    samples = sample_problems()
    for name, row in rows.items():
        op = OPS[name]
        assert row["wire_code"] == OPS[row["name"]].WIRE_CODE
        assert [p["name"] for p in row["inputs"]] == [p.name for p in op.INPUTS]
        assert [p["optional"] for p in row["outputs"]] == [p.optional for p in op.OUTPUTS]
        assert tuple(row["targets"]) == TARGETS == ("cpu", *GFX9_ARCHS)
        mine = [s for s in samples if s.name.partition(".")[0] == name]
        assert mine or name == "custom_op"  # what that one does is the caller's
        for kinds in row["targets"].values():
            assert list(kinds) == row["dtypes"]
            for kind, told in kinds.items():
                assert told["samples"] == sum(kind in [t.json for t in s.dtypes] for s in mine)
                declined = {s for names in told["declined"].values() for s in names}
                assert told["served"] == told["samples"] - len(declined)
    mode = next(p for p in rows["reduction"]["parameters"] if p["name"] == "mode")
    assert mode["type"] == "ReductionMode"
    assert mode["required"] is True
    assert "amax" in mode["choices"]


def test_declined_is_told_with_its_rule(cli: Cli) -> None:
    row = cli("ops", "sdpa", "--json").json()["ops"][0]
    told = row["targets"]["gfx942"]["half"]["declined"]
    gfx942 = Target.parse("gfx942")
    for sample in sample_problems("sdpa"):
        if DataType.HALF in sample.dtypes:
            graph = sample.graph(DataType.HALF).freeze()
            rules = {p.rule for p in support.problems(graph, gfx942)}
            assert rules == {rule for rule, names in told.items() if sample.name in names}
    text = cli("ops", "sdpa").out
    for rule in told:
        assert f"{rule}  {rule_texts()[rule]}" in text


def test_list_and_mistakes(cli: Cli) -> None:
    lines = cli("ops").out.splitlines()
    assert lines[0].split()[:3] == ["op", "wire", "code"]
    assert [line.split()[0] for line in lines[1 : len(OPS) + 1]] == list(OPS)
    assert all(len(line) < 250 for line in lines)
    assert "in_0, in_1?, in_2?" in next(line for line in lines if line.startswith("pointwise "))
    wrong = cli("ops", "conv")
    assert wrong.code == 2
    assert "no op 'conv'; here it is conv_fprop; known: batchnorm, " in wrong.err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("swish", "no op 'swish'; it is a mode of pointwise; known"),
        ("max", "no op 'max'; it is a mode of pointwise; known"),
        ("softmax", "no op 'softmax'; it is a composition of ops, Graph.softmax; known"),
        ("silu", "no op 'silu'; here it is swish; known"),
        ("group_norm", "no op 'group_norm'; here it is layernorm of x"),
        ("matmull", "no op 'matmull'; did you mean 'matmul'?; known"),
    ],
)
def test_what_is_no_op_but_can_be_written(cli: Cli, name: str, words: str) -> None:
    found = cli("ops", name)
    assert (found.code, words in found.err) == (2, True), found.err


@pytest.mark.parametrize("words", [["ops"], ["ops", "--help"]], ids=" ".join)
def test_list_loads_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys\n"
        "from hipdnn_iree.provider.cli.app import app\n"
        "try:\n"
        f"    app.main({words!r})\n"
        "finally:\n"
        "    heavy = {'numpy', 'iree', 'torch_mlir', 'rich'} & set(sys.modules)\n"
        "    assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
