# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``show``, ``run``, ``explain`` and ``compile`` on the bytes that hipDNN hands to plugins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import Graph, load
from hipdnn_iree.graph_api.formats.flatbuffer.decode import decode, is_binary
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import Era

FOLDER = Path(__file__).resolve().parents[1] / "data" / "opgraphs"
FUSED = FOLDER / "fused_conv_bias_relu_f32_nchw.bin"
RELU = FOLDER / "pw_relu_all.bin"
Cli = Callable[..., Any]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.bin")), ids=lambda p: p.stem)
def test_show_prints_hipdnns_json(cli: Cli, path: Path) -> None:
    found = cli("show", path, "--json")
    assert (found.code, found.err) == (0, "")
    wanted = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    shown = found.json()
    assert shown["name"] == wanted["name"]
    tensors = {t["uid"]: t for t in shown["tensors"]}
    for tensor in wanted["tensors"]:
        mine = tensors[tensor["uid"]]
        assert mine["data_type"].upper() == tensor["data_type"]
        for key in ("name", "dims", "strides", "virtual"):
            assert mine[key] == tensor[key]
    assert {n["name"] for n in shown["nodes"]} == {n["name"] for n in wanted["nodes"]}
    assert Graph.from_json(found.out).freeze() == load(path).freeze()


def test_all_commands_take_recorded_bytes(cli: Cli, tmp_path: Path) -> None:
    shown = cli("show", FUSED)
    assert "conv_fprop" in shown.out
    assert "RELU_FWD" in shown.out
    run = cli("run", FUSED, "--verify", "--json")
    assert run.code == 0, run.err
    assert cli("run", FUSED, "--engine", "reference").code == 0
    assert "serves the graph" in cli("explain", FUSED).out
    compiled = cli("compile", FUSED, "--target", "cpu", "-o", tmp_path / "fused.vmfb")
    assert compiled.code == 0, compiled.err
    assert (
        cli("show", "-", "--json", stdin=FUSED.read_bytes()).out == cli("show", FUSED, "--json").out
    )


@pytest.mark.parametrize(("option", "era"), [([], Era.NODE), (["--era", "n25"], Era.N25)])
def test_show_writes_bytes(cli: Cli, tmp_path: Path, option: list[str], era: Era) -> None:
    out = tmp_path / "graph.bin"
    found = cli("show", FUSED, "--format", "bin", *option, "-o", out)
    assert (found.code, found.out, found.err) == (0, "", f"wrote {out}\n")
    data = out.read_bytes()
    assert is_binary(data)
    assert decode(data, Graph).era is era
    digest = cli("show", FUSED, "--format", "digest").out
    assert cli("show", out, "--format", "digest").out == digest
    # From JSON as well.
    text = tmp_path / "graph.json"
    text.write_text(cli("show", FUSED, "--json").out, encoding="utf-8")
    assert cli("show", text, "--format", "bin", *option, "-o", out).code == 0
    assert decode(out.read_bytes(), Graph).graph.freeze() == load(FUSED).freeze()


def test_what_show_refuses(cli: Cli, tmp_path: Path) -> None:
    assert cli("show", RELU, "--era", "n25").code == 2
    assert cli("show", RELU, "--json", "--format", "bin").code == 2
    graph = Graph(io_data_type="float")
    graph.output(graph.matmul(graph.tensor(dims=(2, 3)), graph.tensor(dims=(3, 4))))
    graph.save(tmp_path / "matmul.json")
    found = cli("show", tmp_path / "matmul.json", "--format", "bin", "--era", "n25", "--json")
    assert found.code == 2
    found = cli("show", tmp_path / "matmul.json", "--format", "bin", "--era", "n25")
    assert "WIRE-13" in found.err
    assert found.code == 2


def test_damaged_bytes_are_explained(cli: Cli, tmp_path: Path) -> None:
    bad = tmp_path / "bad.bin"
    bad.write_bytes(RELU.read_bytes()[:-100])
    found = cli("run", bad, "--json")
    assert found.code != 0
    assert found.json()["error"]["problems"][0]["rule"].startswith("WIRE-0")
    config = cli("show", FOLDER / "engine_config_4242001.cfg")
    assert "WIRE-02" in config.err
