# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree onnx``: what a model's nodes run as, and whether the results are right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.provider.cli import onnx as onnx_module

Cli = Callable[..., Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime", minversion="1.23")
    from ep_models import model, node, values

    nodes = [
        node("MatMul", "x w", "m"),
        node("Add", "m b", "a"),
        node("Relu", "a", "r"),
        node("EyeLike", "r", "e"),
        node("Sub", "r e", "y"),
    ]
    weights = {"w": values((8, 4), 1), "b": values((4,), 2)}
    path = tmp_path / "model.onnx"
    path.write_bytes(model(nodes, {"x": (3, 8)}, {"y": (3, 4)}, weights))
    return path


def test_json_report_and_verification(cli: Cli, file: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    found = cli("onnx", file, "--verify", "--json", "--report", page)
    assert found.code == 0, found.err
    about = found.json()
    assert set(about) == set(onnx_module.JSON["model"])
    assert about["verified"] is True
    assert about["assigned"] == about["nodes"] - 1
    assert about["in_file"] == 5
    assert [d["op"] for d in about["declined"]] == ["EyeLike"]
    assert {"node", "op", "rule", "reason"} == set(about["declined"][0])
    assert about["groups"]
    for group in about["groups"]:
        assert {"name", "engine", "policy", "why", "code", "each_size", "nodes"} == set(group)
        assert (group["policy"], group["why"]) == ("order", "the fixed order of engines")
        assert (group["code"], group["each_size"]) == ("fixed", "")
    assert about["times"]["run_us"] > 0 < about["times"]["cpu_us"]
    assert about["inputs"] == [{"name": "x", "dims": [3, 8], "open": {}}]
    text = page.read_text()
    assert "<svg" in text
    assert "EP-01" in text


def test_the_plain_form(cli: Cli, file: Path) -> None:
    found = cli("onnx", file, "--verify")
    assert found.code == 0, found.err
    assert "(5 in the file, before ONNX Runtime optimised it)" in found.out
    assert re.search(r"verified +yes: y is \S+ off, of \S+ allowed", found.out)
    assert "EP-01" in found.out
    assert "EyeLike" in found.out


def test_it_says_why_each_engine_was_taken_and_what_code_there_is(cli: Cli, file: Path) -> None:
    """Of a model with a dim known at execution, where one graph has code for each size."""
    from ep_models import model, node

    nodes = [node("Relu", "x", "y"), node("Transpose", "u", "v", perm=[0, 2, 1])]
    dims = {"x": ("n", 4), "u": ("n", 3, 2)}, {"y": ("n", 4), "v": ("n", 2, 3)}
    file.write_bytes(model(nodes, *dims))
    about = cli("onnx", file, "--json").json()
    groups = about["groups"]
    assert about["inputs"][1] == {"name": "u", "dims": [2, 3, 2], "open": {"n": 2}}
    assert all((g["policy"], g["why"]) == ("order", "the fixed order of engines") for g in groups)
    by_code = {g["code"]: g for g in groups}
    assert by_code.keys() == {"all sizes", "each size"}
    assert by_code["all sizes"]["each_size"] == ""
    assert by_code["each size"]["nodes"] == ["Transpose_v"]
    assert "IREE-DYN-02" in by_code["each size"]["each_size"]
    found = cli("onnx", file).out
    assert all(word in found for word in ("the fixed order", "for each size: ", "IREE-DYN-02"))
    assert "x [2, 4], u [2, 3, 2]; open dims: n = 2" in found
    assert "by ONNX Runtime's CPU provider" in found
    assert "its graphs by themselves" in found
    for word in ("size 2", "CPU provider", "by themselves"):  # what is run, and what the times are
        assert word in cli("onnx", "model", "--help").out


def test_a_model_with_compiled_code_is_not_compared(cli: Cli, file: Path, tmp_path: Path) -> None:
    """ONNX Runtime's CPU provider cannot run it."""
    from ep_models import session

    compiled = tmp_path / "compiled.onnx"
    entries = {"ep__context_enable": "1", "ep__context_file_path": str(compiled)}
    session(str(file), whole=False, **entries)
    about = cli("onnx", compiled, "--json").json()
    assert about["assigned"] == len(about["compiled"]) == about["nodes"] - 1
    assert [d["op"] for d in about["declined"]] == ["EyeLike"]
    assert about["times"]["run_us"] > 0
    assert about["times"]["cpu_us"] is None
    assert "CPU provider cannot run it" in cli("onnx", compiled).out
    found = cli("onnx", compiled, "--verify")
    assert found.code == 2
    assert "EP-FILE-01" in found.err


def test_a_file_is_what_it_holds_not_what_its_name_says(
    cli: Cli, file: Path, tmp_path: Path
) -> None:
    """The count of its nodes is read by another package, for which names are formats."""
    other = tmp_path / "model.json"
    other.write_bytes(file.read_bytes())
    assert cli("onnx", other, "--json").json()["in_file"] == 5


def test_code_for_a_gpu_that_is_not_here(cli: Cli, file: Path) -> None:
    about = cli("onnx", file, "--target", "gfx942", "--json").json()
    assert about["verified"] is None
    assert about["times"]["run_us"] is about["inputs"] is None
    assert about["assigned"] == about["nodes"] - 1


def test_what_is_no_model_and_what_does_not_fit(cli: Cli, file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    found = cli("onnx", broken)
    assert found.code == 2
    assert "EP-FILE-01" in found.err
    assert cli("onnx", tmp_path / "none.onnx").code == 2
    arrays = tmp_path / "inputs.npz"
    np.savez(arrays, x=np.zeros((3, 8)))
    found = cli("onnx", file, "--inputs", arrays)
    assert found.code == 2
    assert "EP-FILE-02" in found.err
    assert cli("onnx", file, "--option", "nonsense=1").code != 0


def test_path_and_install(cli: Cli, tmp_path: Path) -> None:
    path = Path(cli("onnx", "path").out.strip())
    assert path.is_file()
    assert set(cli("onnx", "path", "--json").json()) == set(onnx_module.JSON["path"])
    about = cli("onnx", "install", tmp_path, "--json").json()
    assert set(about) == set(onnx_module.JSON["install"])
    assert Path(about["library"]).is_file()
    assert Path(about["record"]).is_file()
