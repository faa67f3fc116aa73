# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree opt``: passes in their order, what is printed, running, and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.provider.cli import opt as opt_module
from hipdnn_iree.provider.offload import PASSES
from torch_text import Module

Cli = Callable[..., Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    m = Module()
    x, w = m.argument(4, 8), m.argument(8, 2)
    y = m.op("aten.relu", [m.op("aten.mm", [x, w], 4, 2, location="dense")], 4, 2)
    path = tmp_path / "net.mlir"
    path.write_text(m.text(m.op("aten.triu", [y, 0], 4, 2, location="odd")))
    return path


def test_the_flags_are_the_passes() -> None:
    assert set(opt_module.PASSES) == {*PASSES, opt_module.PIPELINE_FLAG}


def test_passes_run_in_the_order_given(cli: Cli, file: Path) -> None:
    found = cli("opt", file, "--cse", "--hipdnn-offload", "--cse", "--json").json()
    assert set(found) == set(opt_module.JSON)
    assert found["passes"] == ["cse", "hipdnn-offload", "cse"]
    (module,) = found["modules"]
    assert "hipdnn.graph" in module["text"]
    (remark,) = module["remarks"]
    assert (remark["op"], remark["node"], remark["rule"]) == ("aten.triu", "odd", "ATEN-01")


def test_remarks_and_the_module_after_each_pass(cli: Cli, file: Path) -> None:
    found = cli("opt", file, "--cse", "--hipdnn-offload", "--print-ir-after-all", "--verify-each")
    assert found.code == 0
    assert "IR Dump After" not in found.out
    assert found.err.index("After cse") < found.err.index("After hipdnn-offload")
    assert "remark: aten.triu at odd: [ATEN-01]" in found.err


def test_running_it(cli: Cli, file: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(d).astype(np.float32) for d in ((4, 8), (8, 2)))
    np.savez(tmp_path / "x.npz", arg0=x, arg1=w)
    words = ("--hipdnn-offload-pipeline", "--run", tmp_path / "x.npz", "--outputs")
    found = cli("opt", file, *words, tmp_path / "y.npz", "--json").json()
    (module,) = found["modules"]
    assert module["results"] == [{"dims": [4, 2], "data_type": "float32"}]
    names = [(one["name"], one["custom"], one["ops"]) for one in module["graphs"]]
    assert names == [
        ("hipdnn_graph_0", False, ["aten.mm", "aten.relu"]),
        ("hipdnn_graph_1", True, ["aten.triu"]),
    ]
    assert module["graphs"][0]["nodes"][0] == "dense"
    with np.load(tmp_path / "y.npz") as arrays:
        wide = x.astype(np.float64) @ w
        assert np.allclose(arrays["out0"], np.triu(np.maximum(wide, 0)), atol=1e-5)


def test_parts_are_modules_of_their_own(cli: Cli, file: Path) -> None:
    both = file.read_text() + "// -----\n" + file.read_text()
    words = ("--hipdnn-offload", "--hipdnn-graph-to-executable", "--engine", "reference")
    found = cli("opt", "-", "--split-input-file", *words, stdin=both)
    assert found.out.count('"hipdnn_graph_0"') == 2
    assert found.out.count("// -----") == 1
    broken = file.read_text() + "// -----\nfunc.func @f( {\n"
    found = cli("opt", "-", "--split-input-file", stdin=broken)
    lines = file.read_text().count("\n") + 2
    assert found.code == 2
    assert f"line {lines}, column 14" in found.err


def test_what_a_pass_leaves_is_read_again(cli: Cli) -> None:
    words = ("--hipdnn-offload-pipeline", "--engine", "reference")
    m = Module()
    text = m.text(m.op("aten.relu", [m.argument(4)], 4))
    once = cli("opt", "-", *words, stdin=text)
    again = cli("opt", "-", stdin=once.out)
    assert once.out == again.out
    assert 'hipdnn.execute graph("hipdnn_graph_0")' in again.out


def test_mistakes(cli: Cli, file: Path, tmp_path: Path) -> None:
    found = cli("opt", file, "--hipdnn-ofload")
    assert found.code == 2
    assert "--hipdnn-offload" in found.err
    found = cli("opt", file, "--outputs", "y.npz")
    assert found.code == 2
    found = cli("opt", tmp_path / "missing.mlir")
    assert found.code == 2
    assert "FILE-01" in found.err
    np.savez(tmp_path / "x.npz", arg0=np.zeros(3))
    found = cli("opt", file, "--hipdnn-offload-pipeline", "--run", tmp_path / "x.npz")
    assert found.code == 2
    assert "OFFLOAD-08" in found.err
    found = cli("opt", file, "--run", tmp_path / "x.npz")
    assert found.code == 3
    assert "cannot be executed" in found.err


def test_sizes_of_open_dims(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "open.mlir"
    path.write_text(
        "func.func @main(%x: !torch.vtensor<[?,4],f32>) -> !torch.vtensor<[?,4],f32> {\n"
        "  %y = torch.aten.relu %x : !torch.vtensor<[?,4],f32> -> !torch.vtensor<[?,4],f32>\n"
        "  return %y : !torch.vtensor<[?,4],f32>\n}\n"
    )
    found = cli("opt", path, "--size", "batch=3", "--hipdnn-offload")
    assert "-> !torch.vtensor<[3,4],f32> {" in found.out
    assert "hipdnn.graph" in found.out
    for word, text in (("bach=3", "got sizes of bach; wanted batch"), ("batch", "wanted NAME=N")):
        found = cli("opt", path, "--size", word)
        assert found.code == 2
        assert text in found.err
