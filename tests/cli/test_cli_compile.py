# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree compile``: modules, dumps and figures, for targets that are not here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.errors import CompileError, DeviceError
from hipdnn_iree.jit import pipeline
from hipdnn_iree.provider import emulated_check
from hipdnn_iree.provider.cli import compile as compile_module
from hipdnn_iree.provider.verify import Report, compare, expect, poisoned_outputs, random_inputs

Cli = Callable[..., Any]
ROW = {
    *(
        "target",
        "bucket",
        "cache",
        "seconds",
        "stages",
        "vmfb_bytes",
        "attempt",
        "failed",
        "sha256",
        "key",
        "workspace_bytes",
    ),
    *("dispatches", "fills", "copies", "transient_bytes", "file", "dump", "kernels"),
    *("emulated", "verified", "max_abs_error", "max_rel_error"),
}


def test_module_and_cache(cli: Cli, graphs: Path, tmp_path: Path, own_cache: Path) -> None:
    made = tmp_path / "add.vmfb"
    words = ["compile", graphs / "add.json", "--target", "cpu"]
    found = cli(*words, "-o", made, "--json")
    assert found.code == 0, found.err
    about = found.json()
    assert set(about) == set(compile_module.JSON) - {"error"}
    (row,) = about["targets"]
    assert set(row) == ROW
    assert (row["target"], row["cache"], row["file"]) == ("cpu", "miss", str(made))
    assert row["vmfb_bytes"] == made.stat().st_size
    assert row["dispatches"] >= 1
    assert row["kernels"] is row["dump"] is None
    made.chmod(0o600)
    again = cli(*words, "-o", made)
    assert again.code == 0
    header, line = again.out.splitlines()
    assert header.split()[:3] == ["target", "cache", "seconds"]
    assert line.split()[:2] == ["cpu", "hit"]
    assert again.err == f"wrote {made}\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["add.vmfb", "own-cache"]


def test_gfx9_without_hardware(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    targets = ["gfx942:xnack-:sramecc+", "gfx90a", "gfx90a"]
    words = [word for target in targets for word in ("--target", target)]
    dump = tmp_path / "dump"
    found = cli("compile", graphs / "conv.json", *words, "--dump", dump, "--json")
    assert found.code == 0, found.err
    rows = found.json()["targets"]
    assert [row["target"] for row in rows] == ["gfx942:sramecc+:xnack-", "gfx90a"]
    for row, folder in zip(rows, ("gfx942-sramecc+-xnack-", "gfx90a"), strict=True):
        assert set(row) == ROW
        assert (row["dump"], row["dispatches"]) == (str(dump / folder), 1)
        names = {p.name for p in (dump / folder).iterdir()}
        assert names >= {"graph.json", "module.torch.mlir", "module.vmfb", "dispatches"}
        (kernel,) = row["kernels"]
        assert kernel["vgprs"] > 0 < kernel["lds_bytes"]
        assert kernel["vgpr_spills"] == kernel["scratch_bytes"] == 0
        assert kernel["mfma_count"] == sum(kernel["mfma"].values()) > 0
        assert all(name.startswith("v_mfma_f32") for name in kernel["mfma"])

    table = cli("compile", graphs / "conv.json", "--target", "gfx90a", "--kernels")
    assert table.code == 0
    lines = table.out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["target", "gfx90a"]
    assert lines[3].startswith("kernel for gfx90a")
    assert "v_mfma_f32" in lines[4]
    assert table.err == ""  # the dump was for the figures only, and is gone


def test_a_failing_target_does_not_stop_the_others(
    cli: Cli, graphs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(graph: Any, target: Any, options: Any) -> pipeline.Compiled:
        if target.is_gfx9:
            raise CompileError("crashed", stage="crash", reproducer="/tmp/r")
        return real(graph, target, options)

    real = pipeline.compile_source
    monkeypatch.setattr(pipeline, "compile_source", refuse)
    words = ["compile", graphs / "add.json", "--target", "gfx908", "--target", "cpu"]
    found = cli(*words, "--json")
    assert found.code == 4
    about = found.json()
    assert set(about) == set(compile_module.JSON)
    failed, done = about["targets"]
    assert failed == {"target": "gfx908", "bucket": None, "error": about["error"]}
    assert (about["error"]["stage"], about["error"]["exit_code"]) == ("crash", 4)
    assert done["vmfb_bytes"] > 0
    found = cli(*words)
    assert found.code == 4
    assert [line.split()[0] for line in found.out.splitlines()] == ["target", "cpu"]
    assert found.err.startswith("error [E400]: gfx908: crashed (stage: crash)")
    only = cli("compile", graphs / "add.json", "--target", "gfx908")
    assert (only.code, only.out) == (4, "")


def test_a_graph_that_is_declined(cli: Cli, graphs: Path) -> None:
    found = cli("compile", graphs / "declined.json", "--target", "gfx942", "--json")
    assert found.code == 3
    assert found.json()["error"]["declines"][0]["rule"] == "IREE-04"
    assert "[IREE-04]" in found.err


def test_targets_and_files_that_do_not_do(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    graph = graphs / "add.json"
    found = cli("compile", graph)
    assert found.code == 2
    assert "Missing option '--target'" in found.err
    found = cli("compile", graph, "--target", "gfx943")
    assert found.code == 2
    assert "did you mean gfx942" in found.err
    two = ["--target", "cpu", "--target", "cpu:x86-64-v3"]
    found = cli("compile", graph, *two, "-o", tmp_path / "a.vmfb")
    assert found.code == 2
    assert "{target}" in found.err
    found = cli("compile", graph, *two, "-o", tmp_path / "{target}.vmfb")
    assert found.code == 0
    assert {p.name for p in tmp_path.iterdir()} == {"cpu.vmfb", "cpu-x86-64-v3.vmfb"}
    found = cli("compile", graph, "--target", "cpu", "-o", tmp_path / "no" / "a.vmfb")
    assert found.code == 2
    assert f"there is no folder {tmp_path}/no [FILE-01]" in found.err
    found = cli("compile", graph, "--target", "cpu", "--dump", tmp_path / "cpu.vmfb")
    assert found.code == 2
    assert "cannot write to" in found.err


def test_extra_flags_reach_the_compiler(cli: Cli, graphs: Path) -> None:
    words = ["compile", graphs / "add.json", "--target", "cpu", "--json"]
    found = cli(*words, "--extra-flags", "--iree-no-such-flag")
    assert found.code == 4
    assert "iree-no-such-flag" in found.json()["error"]["message"]
    found = cli(*words, "--extra-flags", "-o x")
    assert found.code == 2


def test_many_graphs(cli: Cli, graphs: Path, tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    files = [graphs / "add.json", tmp_path / "bad.json", graphs / "declined.json"]
    words = ["compile", *files, "--target", "cpu,cpu:x86-64-v3", "--jobs", "2"]
    found = cli(*words, "--json", "-o", tmp_path / "{graph}-{target}.vmfb")
    about = found.json()
    assert found.code == 2  # of the first failure
    assert set(about) == set(compile_module.JSON) - {"graph", "targets"}
    assert [g["path"] for g in about["graphs"]] == list(map(str, files))
    add, bad, declined = about["graphs"]
    assert [set(row) for row in add["targets"]] == [ROW, ROW]
    assert [row["cache"] for row in add["targets"]] == ["miss", "miss"]
    assert bad["graph"] is None
    assert [row["error"]["code"] for row in bad["targets"]] == ["E200", "E200"]
    assert [row["error"]["code"] for row in declined["targets"]] == ["E300", "E300"]
    assert about["error"]["code"] == "E200"
    seconds = about["summary"].pop("seconds")
    assert seconds > 0
    assert about["summary"] == {
        **{"pairs": 6, "compiled": 2, "hits": 0, "failed": 4, "wrong": 0},
        "jobs": 2,
    }
    made = {p.name for p in tmp_path.glob("*.vmfb")}
    assert made == {"add-cpu.vmfb", "add-cpu-x86-64-v3.vmfb"}
    assert "[4/4]" in found.err  # two of the six have no graph, and nothing to do

    again = cli("compile", files[0], files[2], "--target", "cpu")
    assert again.code == 3
    assert again.out.splitlines()[0].split()[:3] == ["graph", "target", "cache"]
    assert f"{files[0]} for cpu: in the cache" in again.err
    assert "0 compiled, 1 in the cache, 1 failed" in again.err


def test_many_graphs_and_one_file(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    two = ["compile", graphs / "add.json", graphs / "bf16.json", "--target", "cpu"]
    assert "put {graph} in its name" in cli(*two, "-o", tmp_path / "a.vmfb").err
    assert "--dump and --kernels are for one graph" in cli(*two, "--kernels").err
    other = tmp_path / "add.json"
    other.write_bytes((graphs / "add.json").read_bytes())
    words = ["compile", graphs / "add.json", other, "--target", "cpu"]
    assert "the same for several files" in cli(*words, "-o", tmp_path / "{graph}.vmfb").err


def test_run_that_must_not_compile(cli: Cli, graphs: Path, own_cache: Path) -> None:
    words = ["run", graphs / "bf16.json", "--require-precompiled"]
    found = cli(*words, "--json")
    assert found.code == 3
    assert found.json()["error"]["code"] == "E310"
    assert "hipdnn-iree compile GRAPH --target cpu" in found.err
    assert cli("compile", graphs / "bf16.json", "--target", "cpu").code == 0
    assert cli(*words).code == 0


def test_wrong_results_of_a_check(
    cli: Cli, graphs: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    """What emulation finds, and what it cannot execute; the emulation itself has its own tests."""

    def check(graph: Any, target: Any, compiled: pipeline.Compiled, settings: Any) -> Report:
        assert compiled.vmfb
        if target.arch == "gfx950":
            raise DeviceError("main_0 at 0x1900, v_no_such: this instruction is not emulated")
        results = poisoned_outputs(graph)
        inputs = random_inputs(graph, 0)
        if target.arch == "gfx942":
            left, right = (np.asarray(x, np.float32) for x in inputs.values())
            results = dict(
                zip(graph.outputs, (left + right, np.maximum(left + right, 0)), strict=True)
            )
        return compare(graph, results, expect(graph, inputs))

    monkeypatch.setattr(emulated_check, "check_code", check)
    words = ["compile", graphs / "add.json", "--target", "gfx942,gfx90a,gfx950", "--check"]
    found = cli(*words, "--json")
    assert found.code == 3  # the error comes first
    right, wrong, failed = found.json()["targets"]
    assert (right["emulated"], right["verified"]) == (True, True)
    assert (wrong["emulated"], wrong["verified"]) == (True, False)
    assert "not emulated" in failed["error"]["message"]
    assert found.json()["summary"]["wrong"] == found.json()["summary"]["failed"] == 1
    assert "check failed: gfx90a: sum: " in found.err
    assert "never written" in found.err
    found = cli(*words[:3], "gfx942,gfx90a", "--check")
    assert found.code == 1
    assert [line.split()[-1] for line in found.out.splitlines()] == ["emulated", "right", "WRONG"]


def test_only_amd_gpus_are_checked(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    found = cli("compile", graphs / "add.json", "--target", "gfx942,cpu", "--check")
    assert found.code == 2
    assert "--check: AMD GPUs are emulated, and --target is cpu" in found.err
    (tmp_path / "a.mlir").write_text(
        "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}\n"
    )
    found = cli("compile", tmp_path / "a.mlir", "--target", "gfx942", "--check")
    assert found.code == 2
    assert "--check: for graphs" in found.err
