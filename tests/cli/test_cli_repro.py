# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree repro`` and ``reduce``: what failed in a sweep, by itself and small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.provider.cli import reduce as reduce_module
from hipdnn_iree.provider.cli import repro as repro_module
from hipdnn_iree.provider.graph_files import load
from hipdnn_iree.provider.sweep.row import Header, Row, encode
from hipdnn_iree.provider.sweep.sources import read_all
from hipdnn_iree.provider.sweep.suite import read
from sweep_runs import header, row

Cli = Callable[..., Any]

SUITE = """
cases:
  - name: chain
    dtypes: [float, half]
    tensors: {x: {dims: [3, 5]}}
    nodes: [{op: relu, in: x, out: y}, {op: tanh, in: y, out: z}]
"""
BAD_FLAG = {"compiler_extra_flags": "--iree-no-such-flag"}


def suite(folder: Path) -> Path:
    path = folder / "suite.yaml"
    path.write_text(SUITE, encoding="utf-8")
    return path


def rows(path: Path) -> list[Row]:
    """Return a row of each case of a suite, with the digests of their graphs."""
    found = []
    for case in read(path.read_bytes(), source=str(path)).by_type():
        dtype, digest = case.dtypes[0].json, case.freeze().digest
        about: dict[str, Any] = {"dtype": dtype, "digest": digest, "suite": str(path)}
        found.append(row(case.name, status="wrong" if dtype == "half" else "ok", **about))
    return found


def run_file(path: Path, entries: list[Row], settings: dict[str, str] | None = None) -> Path:
    head: Header = header()
    head.options = {"settings": settings or {}}
    path.write_bytes(b"".join(map(encode, [head, *entries])))
    return path


def test_a_row_by_itself(cli: Cli, tmp_path: Path) -> None:
    path = suite(tmp_path)
    run = run_file(tmp_path / "run.jsonl", rows(path))
    folder = tmp_path / "out" / "folder"
    found = cli("repro", run, "chain half", "-o", folder, "--json")
    data = found.json()
    described = {key for keys in repro_module.JSON for key in keys.split(", ")}
    assert (found.code, set(data)) == (0, described)
    assert (data["key"], data["status"], data["ir"]) == (
        "chain half|half|iree|cpu",
        "wrong",
        "written",
    )
    assert {"graph.json", "inputs.npz", "row.json", "run.sh", "stages"} <= set(data["files"])
    assert load(folder / "graph.json").freeze().digest == rows(path)[1].digest
    about = json.loads((folder / "row.json").read_text(encoding="utf-8"))
    assert about["row"]["key"] == data["key"]
    assert about["run"]["versions"] == {"hipdnn-iree": "0.1.0"}
    assert "torch." in (folder / "stages" / "module.torch.mlir").read_text(encoding="utf-8")
    # The script does what it says, with the command line of this installation.
    assert run_again(folder)["verified"] is True
    # Nothing that is there is mixed with it.
    assert cli("repro", run, "chain half", "-o", folder).code == 2


def run_again(folder: Path) -> Any:
    """Return what the script of a folder prints."""
    command = folder / "hipdnn-iree"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hipdnn_iree "$@"\n')
    command.chmod(0o755)
    place = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [folder / "run.sh", "--json"], env={**os.environ, **place}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_row_of_a_graph_with_dynamic_dims(cli: Cli, tmp_path: Path) -> None:
    line = "fuzz --seed 12 --style product --nodes 1 --extent 9 --size 5"
    (case,) = read_all([line]).cases
    entry = row(case.name, engine="iree+sizes=exact", suite=line, digest=case.freeze().digest)
    run = run_file(tmp_path / "run.jsonl", [entry])
    folder = tmp_path / "folder"
    assert cli("repro", run, case.name, "-o", folder).code == 0
    assert "--shape n=5 --exact" in (folder / "run.sh").read_text(encoding="utf-8")
    assert any(5 in array.shape for array in np.load(folder / "inputs.npz").values())
    assert run_again(folder)["verified"] is True


def test_the_inputs_are_those_of_the_check(cli: Cli, tmp_path: Path) -> None:
    entries = rows(suite(tmp_path))
    assert entries[1].check is not None
    entries[1].check.data = "whole"
    run = run_file(tmp_path / "run.jsonl", entries)
    assert cli("repro", run, "chain half", "-o", tmp_path / "folder").code == 0
    found = np.load(tmp_path / "folder" / "inputs.npz")["x"]
    assert found.dtype == np.float16
    assert (found == np.round(found)).all()
    assert np.abs(found).max() <= 2


def test_a_compilation_that_fails_again(cli: Cli, tmp_path: Path) -> None:
    run = run_file(tmp_path / "run.jsonl", rows(suite(tmp_path)), BAD_FLAG)
    folder = tmp_path / "folder"
    data = cli("repro", run, "chain half", "-o", folder, "--json").json()
    assert data["ir"] == "failed"
    assert "no-such-flag" in data["said"]
    (again, *_) = (folder / "compiler").iterdir()
    assert {"module.mlir", "flags.txt", "command.sh"} <= {path.name for path in again.iterdir()}
    assert "EXTRA_FLAGS=--iree-no-such-flag" in (folder / "run.sh").read_text(encoding="utf-8")


def test_an_engine_without_ir(cli: Cli, tmp_path: Path) -> None:
    path = suite(tmp_path)
    entries = [*rows(path), row("chain half", engine="reference", dtype="half", suite=str(path))]
    entries[-1].digest = entries[1].digest
    run = run_file(tmp_path / "run.jsonl", entries)
    words = ("repro", run, "chain half|half|reference|cpu", "-o", tmp_path / "folder")
    assert cli(*words, "--json").json()["ir"] == "none"
    assert "--engine reference" in (tmp_path / "folder" / "run.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "rule"),
    [("chian half", "REPRO-01"), ("gone float", "REPRO-02"), ("chain", "REPRO-02")],
)
def test_rows_that_cannot_be_made_again(cli: Cli, tmp_path: Path, name: str, rule: str) -> None:
    path = suite(tmp_path)
    about = {"suite": str(path)}
    entries = [*rows(path), row("gone float", **about), row("chain", dtype="float", **about)]
    run = run_file(tmp_path / "run.jsonl", entries)
    found = cli("repro", run, name, "-o", tmp_path / "folder")
    assert found.code == 2
    assert rule in found.err
    assert not (tmp_path / "folder").exists()
    if rule == "REPRO-01":
        assert "did you mean chain half" in found.err


def test_a_failing_graph_is_made_small(cli: Cli, tmp_path: Path) -> None:
    g = Graph(io_data_type="float")
    g.tanh(g.relu(g.tensor(dims=(2, 2)))).set_output()
    path, out = tmp_path / "graph.json", tmp_path / "small.json"
    g.save(path)
    words = ("reduce", path, "--extra-flags=--iree-no-such-flag", "-o", out, "--json")
    found = cli(*words)
    data = found.json()
    assert (found.code, set(data)) == (0, {k for ks in reduce_module.JSON for k in ks.split(", ")})
    assert data["status"] == "compile-error"
    assert data["nodes"] == {"before": 2, "after": 1}
    assert data["elements"]["after"] == 2
    small = load(out).freeze()
    assert small.digest == data["digest"]
    assert [small.tensors[uid].dims for uid in small.inputs] == [(1, 1)]


def test_a_graph_that_does_not_fail(cli: Cli, tmp_path: Path) -> None:
    g = Graph(io_data_type="float")
    g.relu(g.tensor(dims=(2, 2))).set_output()
    g.save(tmp_path / "graph.json")
    found = cli("reduce", tmp_path / "graph.json", "--engine", "reference")
    assert (found.code, found.out) == (2, "")
    assert "does not fail here with reference: ok" in found.err
