# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree run``: results, checks, inputs and outputs, and what it says."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from here_and_now import own_engines
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.provider.cli import run as run_module
from hipdnn_iree.provider.engine_ids import engine_id
from hipdnn_iree.provider.engines.iree.iree_plan import IreePlan
from hipdnn_iree.provider.engines.reference_engine import ReferencePlan

Cli = Callable[..., Any]


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


@pytest.fixture
def operands() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        "left side": rng.uniform(-2, 2, (2, 3, 4, 5)).astype(np.float32),
        "b": rng.uniform(-2, 2, (1, 3, 1, 1)).astype(np.float32),
    }


# ------------------------------------------------------------------------------ what it says


def test_json_has_what_the_page_says(cli: Cli, graphs: Path, own_cache: Path) -> None:
    found = cli("run", graphs / "add.json", "--verify", "--json")
    assert (found.code, found.err) == (0, "")
    about = found.json()
    assert set(about) == set(run_module.JSON)
    assert about["graph"] == {
        "name": "add",
        "digest": Graph.from_json((graphs / "add.json").read_bytes()).digest,
        "nodes": 2,
    }
    assert about["engine"] == "IREE_JIT_ENGINE"
    assert about["engine_id"] == str(engine_id("IREE_JIT_ENGINE"))
    assert about["engine_requested"] is None
    assert (about["target"], about["driver"]) == ("cpu", "local-sync")
    assert about["verified"] is True
    assert about["max_abs_error"] >= 0.0
    assert about["cache"] == "miss"
    assert about["compile_s"] >= about["stages"]["compile"] > 0 < about["execute_s"]
    assert set(about["stages"]) == {
        *("load_graph", "build", "inputs", "bind", "verify"),
        *("lookup", "lower", "compile", "load"),
    }
    assert min(about["stages"].values()) >= 0
    assert [o["name"] for o in about["outputs"]] == ["sum", ""]
    assert about["outputs"][0]["layout"] == "channels-last"
    assert all(o["ok"] and o["wrong"] == 0 and o["elements"] == 120 for o in about["outputs"])

    again = cli("run", graphs / "add.json", "--json", "--repeat", 5).json()
    assert again["cache"] == "hit"
    assert "compile" not in again["stages"]
    assert (again["verified"], again["max_abs_error"], again["max_rel_error"]) == (None, None, None)
    times = again["execute"]
    assert times["repeat"] == 5
    assert 0 < times["min_s"] <= times["median_s"] == again["execute_s"] <= times["max_s"]
    off = cli("run", graphs / "add.json", "--json", "--cache", "off").json()
    assert off["cache"] == "off"
    checked = cli("run", graphs / "add.json", "--json", "--cache", "verify").json()
    assert checked["cache"] == "verified"


def test_table(cli: Cli, graphs: Path) -> None:
    found = cli("run", graphs / "add.json", "--verify")
    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    labels = {line.split("  ")[0] for line in lines[:7]}
    assert labels == {"graph", "engine", "cache", "build", "load", "execute", "code"}
    assert "IREE_JIT_ENGINE on cpu, local-sync" in found.out
    header, first, second = lines[8:11]
    assert header.split("  ")[0] == "output"
    assert "max rel error" in header
    assert first.split() == ["sum", "float", "2x3x4x5", "channels-last", *first.split()[-3:]]
    assert second.startswith("uid ")
    assert first.endswith("ok")
    assert "verified" in lines[-1]
    plain = cli("run", graphs / "add.json").out
    assert "not verified" in plain
    assert "error" not in plain


def test_the_pinned_engine_runs_and_is_named(cli: Cli, graphs: Path) -> None:
    for name in ("reference", "REFERENCE_ENGINE"):
        about = cli("run", graphs / "add.json", "--engine", name, "--verify", "--json").json()
        assert about["engine"] == "REFERENCE_ENGINE"
        assert about["engine_requested"] == name
        assert (about["verified"], about["cache"], about["driver"]) == (True, "off", None)
        assert about["dispatches"] is None


def test_options_of_knobs_hold_for_one_call(cli: Cli, graphs: Path) -> None:
    wanted = {"--driver": "local-task"}
    words = [word for pair in wanted.items() for word in pair]
    assert cli("run", graphs / "add.json", *words, "--json").json()["driver"] == "local-task"
    assert cli("run", graphs / "add.json", "--json").json()["driver"] == "local-sync"
    found = cli("run", graphs / "add.json", "--driver", "gpu")
    assert found.code == 2
    assert "allowed: auto | local-sync | local-task" in found.err


# ---------------------------------------------------------------------------- inputs, outputs


@pytest.mark.parametrize("names", [("left side", "b"), ("1", "40"), ("left side", "40")])
def test_inputs_and_outputs(
    cli: Cli, graphs: Path, tmp_path: Path, operands: dict[str, Any], names: tuple[str, str]
) -> None:
    arrays = dict(zip(names, operands.values(), strict=True))
    given, made = saved(tmp_path / "x.npz", **arrays), tmp_path / "y.npz"
    found = cli("run", graphs / "add.json", "--inputs", given, "--outputs", made, "--verify")
    assert found.code == 0, found.err
    with np.load(made) as results:
        total = operands["left side"] + operands["b"]
        assert len(results.files) == 2
        np.testing.assert_array_equal(results["sum"], total)
        (other,) = set(results.files) - {"sum"}
        assert other.isdigit()  # it has no name, so the uid
        np.testing.assert_array_equal(results[other], np.maximum(total, 0))
    assert ".view(" not in found.err  # NumPy has the type


def test_equal_seeds_give_equal_inputs(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    results = []
    for i, seed in enumerate((1, 1, 2)):
        path = tmp_path / f"{i}.npz"
        assert cli("run", graphs / "add.json", "--seed", seed, "--outputs", path).code == 0
        with np.load(path) as arrays:
            results.append(arrays["sum"])
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).all()


def test_types_that_numpy_does_not_know(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8).astype(ml_dtypes.bfloat16)
    given, made = saved(tmp_path / "x.npz", x=x), tmp_path / "y.npz"
    found = cli("run", graphs / "bf16.json", "--inputs", given, "--outputs", made)
    assert found.code == 0, found.err
    with np.load(made) as results:
        y = results["y"].view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(y.astype(np.float32), 2 * np.arange(32).reshape(4, 8))
    assert f"wrote {made}\n" in found.err
    assert "y: .npz files have no bfloat16; read it with .view(ml_dtypes.bfloat16)" in found.err


def test_types_below_a_byte(cli: Cli, tmp_path: Path) -> None:
    g = Graph(io_data_type="fp4_e2m1", compute_data_type="float")
    x = g.tensor(dims=(3, 5), name="x")
    w = g.tensor(dims=(3, 5), strides=(0, 1), data_type="int4", name="w")
    g.output(g.add(x, w), name="y", data_type="int4")
    g.save(tmp_path / "g.json")
    values = np.arange(15).reshape(3, 5) % 4
    given = saved(
        tmp_path / "x.npz",
        x=values.astype(ml_dtypes.float4_e2m1fn),
        w=np.arange(5).reshape(1, 5).astype(ml_dtypes.int4),
    )
    made = tmp_path / "y.npz"
    words = ["--inputs", given, "--outputs", made, "--verify"]
    found = cli("run", tmp_path / "g.json", *words)
    assert found.code == 0, found.err
    with np.load(made) as results:
        y = results["y"].view(ml_dtypes.int4)
    np.testing.assert_array_equal(y.astype(int), values + np.arange(5))


def test_names_that_are_no_names(cli: Cli, tmp_path: Path) -> None:
    """Equal names, names that look like uids, or that a zip archive cannot hold: the uid."""
    g = Graph(io_data_type="float")
    x, y = g.tensor(dims=(3,), name="7", uid=3), g.tensor(dims=(3,), name="same", uid=4)
    g.add(x, y).set_output().set_name("same").set_uid(5)
    g.output(g.sub(x, y), name="file").set_uid(6)
    g.output(g.mul(x, y), name="a\nb").set_uid(7)
    g.save(tmp_path / "g.json")
    given = saved(tmp_path / "x.npz", **{"3": np.float32([1, 2, 3]), "4": np.float32([4, 5, 6])})
    made = tmp_path / "y.npz"
    words = ["--engine", "reference", "--inputs", given, "--outputs", made]
    found = cli("run", tmp_path / "g.json", *words)
    assert found.code == 0, found.err
    assert "a\\nb" in found.out
    with np.load(made) as results:
        assert {key: list(results[key]) for key in results.files} == {
            "5": [5, 7, 9],
            "file": [-3, -3, -3],
            "7": [4, 10, 18],
        }


def test_broadcast_input(cli: Cli, tmp_path: Path) -> None:
    g = Graph(io_data_type="float")
    g.output(g.neg(g.tensor(dims=(2, 3), strides=(0, 1), name="x")), name="y")
    g.save(tmp_path / "g.json")
    words = ["run", tmp_path / "g.json", "--engine", "reference", "--inputs"]
    row = np.float32([[1, np.nan, 3]])
    assert cli(*words, saved(tmp_path / "a.npz", x=row)).code == 0
    assert cli(*words, saved(tmp_path / "b.npz", x=np.repeat(row, 2, axis=0))).code == 0
    found = cli(*words, saved(tmp_path / "c.npz", x=np.float32([[1, 2, 3], [1, 2, 4]])))
    assert found.code == 2
    assert "[INPUT-03] got values that differ along a dim with stride 0" in found.err


def test_all_that_is_wrong_with_inputs_is_said_at_once(
    cli: Cli, graphs: Path, tmp_path: Path, operands: dict[str, Any]
) -> None:
    given = saved(tmp_path / "x.npz", c=np.zeros(3), b=operands["b"].astype(float).ravel())
    found = cli("run", graphs / "add.json", "--inputs", given, "--json")
    assert found.code == 2
    error = found.json()["error"]
    assert (error["code"], error["exit_code"]) == ("E600", 2)
    problems = {p["rule"]: p for p in error["problems"]}
    assert set(problems) == {"INPUT-01", "INPUT-02", "INPUT-03", "INPUT-04"}
    assert problems["INPUT-01"]["port"] == "'left side' (uid 1)"
    assert problems["INPUT-01"]["wanted"] == "float [2, 3, 4, 5] under its name or '1'"
    assert problems["INPUT-02"]["port"] == "c"
    assert problems["INPUT-02"]["wanted"] == "one of left side, b"
    assert problems["INPUT-03"]["got"] == "dims [3]"
    assert problems["INPUT-04"]["hint"] == "convert with .astype('float32')"
    assert "[INPUT-02]" in found.err


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04nothing", b"\x93NUMPY", b'{"a": 1}', None])
def test_a_file_that_is_no_npz(
    cli: Cli, graphs: Path, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "x.npz"
    if content is not None:
        path.write_bytes(content)
    found = cli("run", graphs / "add.json", "--inputs", path)
    assert found.code == 2
    assert f"[{'FILE-01' if content is None else 'FILE-02'}]" in found.err
    assert str(path) in found.err


def test_members_that_are_no_arrays_and_pickles_are_not_read(
    cli: Cli, graphs: Path, tmp_path: Path
) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, b=np.array([print], dtype=object))
    found = cli("run", graphs / "add.json", "--inputs", path)
    assert found.code == 2
    assert "[FILE-02]" in found.err
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("b.npy", b"no array")
    found = cli("run", graphs / "add.json", "--inputs", path)
    assert "[FILE-02] got b: bytes, not an array" in found.err
    single = tmp_path / "x.npy"
    np.save(single, np.zeros(3))
    assert "[FILE-02] got a single array" in cli("run", graphs / "add.json", "--inputs", single).err


def _archived(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def _array_file(shape: tuple[int, ...], data: bytes = b"", version: int = 1) -> bytes:
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    length = len(head).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes((version, 0)) + length + head + data


@pytest.mark.parametrize(
    ("member", "rules"),
    [
        pytest.param(_array_file((2**40, 2**40)), {"INPUT-03"}, id="dims without number"),
        pytest.param(_array_file((1 << 25,), bytes(4 << 25)), {"INPUT-03"}, id="a bomb"),
        pytest.param(_array_file((1, 3, 1, 1)), {"FILE-02"}, id="no data"),
        pytest.param(
            _array_file((1, 3, 1, 1), bytes(12), version=3), {"FILE-02"}, id="another format"
        ),
        pytest.param(b"no array", {"FILE-02"}, id="no array"),
    ],
)
@pytest.mark.parametrize("name", ["b.npy", "b"])
def test_only_arrays_that_fit_are_unpacked(
    cli: Cli, graphs: Path, tmp_path: Path, name: str, member: bytes, rules: set[str]
) -> None:
    a = _array_file((2, 3, 4, 5), bytes(480))
    given = _archived(tmp_path / "x.npz", **{"left side.npy": a, name: member})
    del a
    tracemalloc.start()
    try:
        found = cli("run", graphs / "add.json", "--inputs", given, "--json")
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert found.code == 2
    assert {p["rule"] for p in found.json()["error"]["problems"]} == rules


def test_outputs_that_cannot_be_written(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "y.npz", tmp_path):
        found = cli("run", graphs / "add.json", "--outputs", path)
        assert found.code == 2
        assert f"cannot write {path}" in found.err
        assert found.out == ""
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------- verification


def test_a_wrong_result_is_found_and_named(
    cli: Cli, graphs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind = IreePlan._bind

    def faulty(self: IreePlan, buffers: Any, *more: Any) -> Callable[[], None]:
        call = bind(self, buffers, *more)

        def run() -> None:
            call()
            (uid,) = (u for u in self.graph.outputs if self.graph.tensors[u].name == "sum")
            buffers[uid][1, 2, 3, 4] += 0.5

        return run

    monkeypatch.setattr(IreePlan, "_bind", faulty)
    found = cli("run", graphs / "add.json", "--verify")
    assert found.code == 1
    assert "verification failed: sum: " in found.err
    assert "1 of 120 elements wrong" in found.err
    assert "worst at [1, 2, 3, 4]: got " in found.err
    assert "expected " in found.err
    assert "±" in found.err
    assert "1 of 120 wrong" in found.out
    assert "WRONG" in found.out

    found = cli("run", graphs / "add.json", "--verify", "--json")
    assert found.code == 1
    about = found.json()
    assert about["verified"] is False
    assert about["max_abs_error"] == pytest.approx(0.5, abs=1e-6)
    wrong, right = about["outputs"]
    assert (wrong["ok"], right["ok"]) == (False, True)
    assert wrong["worst"] == [1, 2, 3, 4]
    assert wrong["got"] == pytest.approx(wrong["expected"] + 0.5, abs=1e-6)
    assert wrong["allowed"] < 1e-6
    # Nobody asked for a check, so none was made.
    assert cli("run", graphs / "add.json").code == 0


def test_elements_that_are_never_written_are_found(
    cli: Cli, graphs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReferencePlan, "_bind", lambda self, *more: lambda: None)
    words = ["run", graphs / "add.json", "--engine", "reference", "--verify"]
    found = cli(*words)
    assert found.code == 1
    assert "120 of 120 elements wrong; 120 never written" in found.err
    about = cli(*words, "--json").json()
    assert about["max_abs_error"] is None  # infinite
    assert about["verified"] is False


# ---------------------------------------------------------------------------- not here


@pytest.mark.parametrize("target", ["gfx942", "mi300x", "cuda:sm_80"])
def test_a_target_without_a_device(
    cli: Cli, graphs: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("compiled in vain")

    monkeypatch.setattr("hipdnn_iree.provider.engines.iree.iree_engine.compile_source", never)
    found = cli("run", graphs / "add.json", "--target", target, "--json")
    assert found.code == 3
    error = found.json()["error"]
    assert (error["code"], error["error"]) == ("E700", "DeviceError")
    assert f"hipdnn-iree compile GRAPH --target {target}" in error["message"]
    assert f"{target} cannot run here: no " in found.err


def test_a_pinned_engine_that_declines(cli: Cli, graphs: Path) -> None:
    found = cli("run", graphs / "add.json", "--engine", "reference", "--target", "gfx90a", "--json")
    assert found.code == 3
    (decline,) = found.json()["error"]["declines"]
    assert decline["engine"] == "REFERENCE_ENGINE"
    assert (decline["rule"], decline["got"]) == ("REFERENCE-01", "gfx90a")
    found = cli("run", graphs / "declined.json")
    assert found.code == 3
    assert "IREE_JIT_ENGINE declined pointwise_0.in_0: [IREE-04]" in found.err
    found = cli("run", graphs / "add.json", "--engine", "cudnn")
    assert found.code == 2
    assert "unknown engine 'cudnn'; known: iree (IREE_JIT_ENGINE), " in found.err
    for alias, engine in own_engines().items():
        assert f"{alias} ({engine.name})" in found.err


def test_a_graph_that_no_memory_holds(cli: Cli, tmp_path: Path) -> None:
    g = Graph(io_data_type="float")
    g.relu(g.tensor(dims=(2**40, 4))).set_output()
    g.save(tmp_path / "g.json")
    for words in ([], ["--engine", "reference"]):
        found = cli("run", tmp_path / "g.json", *words)
        assert found.code == 3
        assert f"take {2 * 4 * 4 * 2**40:,} bytes" in found.err


def test_memory_that_runs_out(cli: Cli, graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError("Unable to allocate 1. TiB")

    monkeypatch.setattr("hipdnn_iree.provider.verify.random_inputs", full)
    found = cli("run", graphs / "add.json", "--json")
    assert found.code == 3
    assert found.json()["error"]["message"] == "not enough memory: Unable to allocate 1. TiB"


def test_a_compiler_that_fails(cli: Cli, graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CompileError(
            "no", stage="compile", node="relu", diagnostics=["first"], reproducer="/tmp/r"
        )

    monkeypatch.setattr("hipdnn_iree.provider.engines.iree.iree_engine.compile_source", refuse)
    found = cli("run", graphs / "add.json", "--json")
    assert found.code == 4
    error = found.json()["error"]
    assert (error["stage"], error["node"], error["exit_code"]) == ("compile", "relu", 4)
    assert "at node: relu" in found.err
    assert "compiler said: first" in found.err


def test_graph_from_standard_input(cli: Cli, graphs: Path) -> None:
    text = (graphs / "add.json").read_text(encoding="utf-8")
    found = cli("run", "-", "--engine", "reference", "--json", stdin=text)
    assert json.loads(text)["name"] == found.json()["graph"]["name"]
    found = cli("run", "-", stdin="no graph")
    assert found.code == 2
    assert "standard input: this is not a hipDNN graph" in found.err
