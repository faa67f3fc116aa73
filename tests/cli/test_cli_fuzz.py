# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree fuzz``: random graphs in a run, other ways to build them, and what is refused."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import pytest
from graph_rows import row_of
from here_and_now import contestant
from hipdnn_iree.graph_api.dynamic import at_sizes
from hipdnn_iree.graph_api.errors import FormatError, NotSupportedError, SettingError
from hipdnn_iree.graph_api.formats.json.json_form import loads
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.cli import fuzz as fuzz_module
from hipdnn_iree.provider.engines import reference_engine as reference
from hipdnn_iree.provider.graph import Graph
from hipdnn_iree.provider.sweep.fuzz import cases, forms
from hipdnn_iree.provider.sweep.fuzz.random_graphs import random_graph
from hipdnn_iree.provider.sweep.fuzz.variants import other_ways
from hipdnn_iree.provider.sweep.repro import graph_of
from hipdnn_iree.provider.sweep.row import read_run
from hipdnn_iree.provider.sweep.sources import read_all

Cli = Callable[..., Any]
CPU = Target.parse("cpu")


def test_graphs_in_a_run(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    words = ["fuzz", "--seed", "8", "--count", "2", "--nodes", "2", "--jobs", "1", "-o", path]
    found = cli(*words, "--variants", "1", "--json")
    data = found.json()
    assert set(data) == {key for keys in fuzz_module.JSON for key in keys.split(", ")}
    assert (found.code, data["failed"], data["counts"]["wrong"]) == (0, [], 0)
    rows = read_run(path).rows
    assert [row.case for row in rows if row.engine == "iree"] == [
        "fuzz 8 nodes 2",
        "fuzz 9 nodes 2",
    ]
    assert data["rows"] == data["new"] == len(rows) > 2
    assert data["checked"] == data["counts"]["ok"] > 0
    assert rows[0].digest == random_graph(8, nodes=2).freeze().digest
    # A row says how to draw its graph.
    assert rows[0].suite == "fuzz --seed 8 --nodes 2"
    assert graph_of(rows[0], rows[0].suite)[0].digest == rows[0].digest
    again = cli(*words, "--variants", "1", "--resume", "--json").json()
    assert (again["rows"], again["new"]) == (data["rows"], 0)


def test_what_fails_is_reduced(cli: Cli, tmp_path: Path) -> None:
    words = ["--seed", "8", "--count", "1", "--nodes", "3", "--extra-flags=--no-such-flag"]
    words += ["-o", str(tmp_path / "run.jsonl"), "--jobs", "1", "--reduce", str(tmp_path / "small")]
    found = cli("fuzz", *words, "--json")
    assert found.code == 1
    (row,) = found.json()["failed"]
    assert (row["key"], row["status"]) == ("fuzz 8 nodes 3|float|iree|cpu", "compile-error")
    small = loads(Path(row["reduced"]).read_text(encoding="utf-8"), Graph).freeze()
    assert len(small.nodes) == 1 < len(random_graph(8, nodes=3).freeze().nodes)


def test_a_setting_of_the_environment_stands(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["fuzz", "--count", "1", "--nodes", "1", "--jobs", "1", "-o"]
    monkeypatch.setenv("HIPDNN_IREE_COMPILER_TIMEOUT_S", "77")
    assert cli(*words, tmp_path / "a.jsonl").code == 0
    assert read_run(tmp_path / "a.jsonl").headers[0].options["settings"] == {"cache_mode": "off"}


def test_lines_of_graphs_are_suites() -> None:
    suite = read_all(["fuzz --seed=3 --count 2 --style conv", "fuzz --seed 3 --gaps"])
    assert [case.name for case in suite.cases] == [
        "fuzz 3 style conv",
        "fuzz 4 style conv",
        "fuzz 3 gaps",
    ]
    assert [case.source for case in suite.cases][1:] == [
        "fuzz --seed 4 --style conv",
        "fuzz --seed 3 --gaps",
    ]
    plain, gapped = random_graph(3).freeze(), suite.cases[2].freeze()
    assert any(gapped.tensors[uid].layout.padded for uid in gapped.outputs)
    assert len(plain.nodes) == len(gapped.nodes)


@pytest.mark.parametrize(
    ("line", "rule", "text"),
    [
        ("fuzz --sead 1", "FUZZ-01", "did you mean --seed"),
        ("fuzz --seed", "FUZZ-01", "a value"),
        ("fuzz --seed 'a", "FUZZ-01", "quotes that end"),
        ("fuzz --gaps=no", "FUZZ-01", "--gaps"),
        ("fuzz --seed x", "FUZZ-02", "an integer from 0"),
        ("fuzz --count 0", "FUZZ-02", "an integer from 1 to 100000"),
        ("fuzz --nodes 101", "FUZZ-02", "to 100"),
        ("fuzz --size 65", "FUZZ-02", "to 64"),
        ("fuzz --extent 8", "FUZZ-02", "--extent and --size, both"),
        ("fuzz --style convs", "FUZZ-02", "did you mean conv"),
    ],
)
def test_mistakes_in_a_line(line: str, rule: str, text: str) -> None:
    with pytest.raises(FormatError, match=text) as caught:
        read_all([line])
    assert {p.rule for p in caught.value.problems} == {rule} <= cases.RULES.keys()


def test_emulation_is_for_gpus(cli: Cli, tmp_path: Path) -> None:
    found = cli("fuzz", "--emulate", "-o", tmp_path / "run.jsonl")
    assert found.code == 2
    assert "--target is cpu" in found.err
    assert not (tmp_path / "run.jsonl").exists()


# ------------------------------------------------------------------------ ways to build a graph


def _product() -> Any:
    g = Graph(io_data_type="float")
    g.relu(g.matmul(g.tensor(dims=(4, 4)), g.tensor(dims=(4, 3)))).set_output()
    return g.freeze()


def test_other_ways_to_build_are_contestants() -> None:
    draw = cases.Draw(seed=8, nodes=4)
    ways = other_ways(draw, CPU, settings(), Random(1), 100)
    assert len(set(ways)) == len(ways) > 3
    assert (draw, "iree+opt_level=O0") in ways
    opened = {way for way, _ in ways if way.extent}
    assert all(name.startswith("iree") for way, name in ways if way in opened)
    assert len(other_ways(draw, CPU, settings(), Random(1), 2)) == 2
    for _, name in ways:
        assert contestant(name).engine


@pytest.mark.parametrize("engine", ["reference", "iree", "iree+sizes=exact", "iree+sizes=powers"])
def test_an_extent_is_made_dynamic_and_checked_at_another_size(engine: str) -> None:
    line = "fuzz --seed 12 --style product --nodes 1 --extent 9 --size 5"  # a matmul
    (case,) = read_all([line]).cases
    graph = case.freeze()
    assert [(dim.name, dim.example) for dim in graph.symbols] == [("n", 9)]
    row = row_of(line, engine)
    at = at_sizes(graph, {"n": 5})
    assert (row["status"], row["digest"]) == ("ok", graph.digest)
    assert row["check"]["elements"] == sum(prod(at.tensors[uid].dims) for uid in at.outputs)
    plain = random_graph(12, style="product", nodes=1).freeze()
    assert row["check"]["elements"] < sum(prod(plain.tensors[u].dims) for u in plain.outputs)


def test_a_knob_that_a_graph_lacks_declines_it() -> None:
    for name in ("iree+conv_fprop.strategy=plain", "iree+matmul.strategy=sideways"):
        with pytest.raises(NotSupportedError) as caught:
            contestant(name).build(_product(), CPU, settings())
        assert caught.value.declines[0].problem.rule == "CONTESTANT-01"
    with pytest.raises(NotSupportedError, match="CONTESTANT-01"):
        contestant("iree+sizes=exact").build(_product(), CPU, settings())
    # What a contestant has by itself is no demand.
    assert contestant("torch+torch.threads=1").required == ("torch.threads",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("iree+", "wanted KNOB=CHOICE"),
        ("iree+matmul.strategy", "wanted KNOB=CHOICE"),
        ("auto+a=b", "pins no engine"),
        ("iree+sizes=all", "wanted exact or powers"),
        ("nobody+a=b", "unknown engine 'nobody'"),
    ],
)
def test_names_with_mistakes(name: str, text: str) -> None:
    with pytest.raises(SettingError, match=text.replace("+", r"\+")):
        contestant(name)


# ------------------------------------------------------------------------ what is found wrong


def test_a_form_that_changes_a_graph_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert row_of("fuzz --seed 5 --nodes 3", "reference", forms=True)["status"] == "ok"
    another = random_graph(6).freeze()
    monkeypatch.setattr(forms, "_through_bytes", lambda graph, era: another)
    found = row_of("fuzz --seed 5 --nodes 3", "reference", forms=True)
    assert found["status"] == "wrong"
    assert found["detail"].endswith("the digest is another one")
    assert "check" not in found
    assert row_of("fuzz --seed 5 --nodes 3", "reference")["status"] == "ok"


def test_a_write_beside_the_elements_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "fuzz --seed 3 --gaps --nodes 2"
    assert row_of(line, "reference")["status"] == "ok"
    bind = reference.ReferencePlan._bind

    def wide(self: Any, buffers: Any, workspace: Any, copy: bool) -> Callable[[], None]:
        call = bind(self, buffers, workspace, copy)

        def and_more() -> None:
            call()
            for uid in self.graph.outputs:
                before = ctypes.c_uint8.from_address(buffers[uid].ctypes.data - 1)
                before.value ^= 1

        return and_more

    monkeypatch.setattr(reference.ReferencePlan, "_bind", wide)
    found = row_of(line, "reference")
    assert found["status"] == "wrong"
    assert "bytes around its elements" in found["detail"]
    assert found["check"]["bad"] == 0


def test_an_output_that_is_never_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference.ReferencePlan, "_bind", lambda *_: lambda: None)
    found = row_of("fuzz --seed 12 --style product --nodes 1", "reference")
    assert found["status"] == "wrong"
    assert "never written" in found["log"]
