# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From graph to code: cache states, what a key holds, dumps, kernels, support rules."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import ArtifactError, CompileError, NotSupportedError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.ops import FAMILIES
from hipdnn_iree.jit import support
from hipdnn_iree.jit.cache.layout import Layout
from hipdnn_iree.jit.inspect.isa import read_kernels
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.stages import MLIR, VMFB
from under_settings import cache_key, compile_source, dump, store

CPU, GFX942 = Target.parse("cpu"), Target.parse("gfx942")


def relu(name: str = "", size: int = 5) -> FrozenGraph:
    graph = Graph(name, io_data_type="float")
    graph.relu(graph.tensor(dims=(size, 7), name=name), name=name).set_output()
    return graph.freeze()


def conv() -> FrozenGraph:
    graph = Graph("conv", io_data_type="half", compute_data_type="float")
    x, w = graph.tensor(dims=(2, 32, 14, 14)), graph.tensor(dims=(32, 32, 3, 3))
    graph.relu(graph.conv_fprop(x, w, padding=1)).set_output()
    return graph.freeze()


def test_a_second_compilation_is_a_hit_whatever_the_names(tmp_path: Path) -> None:
    with scope(cache_dir=tmp_path):
        first = compile_source(relu("a"), CPU)
        again = compile_source(relu("another name"), CPU)
    assert (first.cache, again.cache) == ("miss", "hit")
    assert again.vmfb == first.vmfb
    assert again.signature == first.signature
    assert "compile" in first.seconds
    assert "compile" not in again.seconds


def test_another_process_is_waited_for_as_long_as_a_compilation_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []

    def locked(self: object, digest: str, wait_s: float) -> AbstractContextManager[bool]:
        waits.append(wait_s)
        return nullcontext(False)

    monkeypatch.setattr(Layout, "locked", locked)
    with scope(cache_dir=tmp_path, compiler_timeout_s=77):
        assert compile_source(relu(), CPU).cache == "miss"
    assert waits == [77]


def test_off_neither_reads_nor_writes(tmp_path: Path) -> None:
    with scope(cache_dir=tmp_path, cache_mode="off"):
        assert [compile_source(relu(), CPU).cache for _ in range(2)] == ["off", "off"]
    assert not list(tmp_path.glob("v*"))


def test_verify_compiles_again_and_compares(tmp_path: Path) -> None:
    with scope(cache_dir=tmp_path):
        compile_source(relu(), CPU)
    with scope(cache_dir=tmp_path, cache_mode="verify"):
        assert compile_source(relu(), CPU).cache == "verified"


def test_verify_reports_an_entry_that_compiling_does_not_give(tmp_path: Path) -> None:
    graph = relu()
    with scope(cache_dir=tmp_path):
        other = compile_source(relu(size=6), CPU)
        key = cache_key(graph, CPU)
        manifest = {
            "sha256": other.sha256,
            "workspace_bytes": 0,
            "statistics": {},
            "target": "cpu",
            "compile_s": 0.0,
        }
        store().put(key, {VMFB: other.vmfb, MLIR: b""}, manifest)
    with scope(cache_dir=tmp_path, cache_mode="verify"), pytest.raises(ArtifactError, match=VMFB):
        compile_source(graph, CPU)


def test_the_key_names_everything_that_decides_the_code() -> None:
    base = cache_key(relu(), CPU)
    assert cache_key(relu("named"), CPU) == base
    assert cache_key(relu(size=6), CPU) != base
    assert cache_key(relu(), GFX942) != base
    with scope(compiler_opt_level="O2"):
        assert cache_key(relu(), CPU) != base
    wanted = {"graph", "target", "cpu", "flags", "lowering", "iree-base-compiler", "torch-mlir"}
    assert wanted <= set(base.ingredients)


def test_a_failure_stores_nothing_and_names_the_node(tmp_path: Path) -> None:
    graph = Graph("bad", io_data_type="float")
    graph.relu(graph.tensor(dims=(3,)), name="the node").set_output()
    flags = ("--iree-llvmcpu-target-cpu=no-such-cpu",)
    with scope(cache_dir=tmp_path, compiler_extra_flags=flags), pytest.raises(CompileError) as info:
        compile_source(graph.freeze(), CPU)
    assert info.value.reproducer
    assert (Path(info.value.reproducer) / "module.mlir").is_file()
    assert not list(tmp_path.rglob(VMFB))


def test_dump_writes_every_stage_and_kernels_can_be_read(tmp_path: Path) -> None:
    compiled = dump(conv(), GFX942, tmp_path)
    names = {p.name for p in tmp_path.iterdir()}
    assert names >= {"graph.json", MLIR, VMFB, "flags.txt", "statistics.json", "dispatches"}
    assert (tmp_path / VMFB).read_bytes() == compiled.vmfb
    assert compiled.statistics == {
        "dispatches": 1,
        "fills": 0,
        "copies": 0,
        "transient_bytes": 0,
    }
    (kernel,) = read_kernels(tmp_path / "dispatches")
    assert kernel.mfma_count > 0
    assert kernel.vgprs > 0
    assert kernel.vgpr_spills == kernel.scratch_bytes == 0


def test_a_hit_in_a_new_process_loads_no_compiler(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from hipdnn_iree import Graph\n"
        "g = Graph(io_data_type='float')\n"
        "g.relu(g.tensor(dims=(3, 3))).set_output()\n"
        "plan = g.build('cpu')\n"
        "print(plan.cache, 'torch_mlir' in sys.modules, 'iree.compiler' in sys.modules)\n"
    )
    environment = {**os.environ, "HIPDNN_IREE_CACHE_DIR": str(tmp_path)}
    lines = []
    for _ in range(2):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        lines.append(done.stdout.split())
    assert lines[0][0] == "miss"
    assert lines[1] == ["hit", "False", "False"]


def _ragged(graph: Graph) -> None:
    x = graph.tensor(dims=(3,))
    x.ragged_offset_uid = graph.tensor(dims=(3,), data_type="int32").uid
    graph.relu(x).set_output()


@pytest.mark.parametrize(
    ("rule", "build", "port"),
    [
        ("IREE-04", _ragged, "in_0"),
    ],
)
def test_what_is_not_served_is_declined_by_a_rule(
    rule: str, build: Callable[[Graph], Any], port: str
) -> None:
    graph = Graph("declined", io_data_type="float")
    build(graph)
    (problem,) = support.problems(graph.freeze(), CPU)
    assert (problem.rule, problem.port) == (rule, port)
    with pytest.raises(NotSupportedError, match=rule):
        graph.build("cpu")


def test_an_op_without_a_lowering_is_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FAMILIES, "pointwise")
    (problem,) = support.problems(relu(), CPU)
    assert problem.rule == "IREE-01"


def test_kernels_of_several_dispatches_are_told_apart(tmp_path: Path) -> None:
    # IREE may link all dispatches of a module into one assembly file.
    graph = Graph("two products", io_data_type="half", compute_data_type="float")
    x, w = graph.tensor(dims=(64, 64)), graph.tensor(dims=(64, 64))
    hidden = graph.relu(graph.matmul(x, w)).set_data_type("half")
    graph.matmul(hidden, w).set_output()
    compiled = dump(graph.freeze(), GFX942, tmp_path)
    kernels = read_kernels(tmp_path / "dispatches")
    assert len(kernels) == compiled.statistics["dispatches"] == 2
    assert len({k.name for k in kernels}) == 2
    assert all(k.mfma_count > 0 and k.vgprs > 0 for k in kernels)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return compiled code, and the manifest and the files of its entry."""
    with scope(cache_dir=tmp_path_factory.mktemp("made")):
        first = compile_source(relu(), CPU)
        entry = store().get(first.key)
        assert entry is not None
        return first, entry.manifest, {name: entry.read(name) for name in entry.names}


@pytest.mark.parametrize(
    "changes",
    [
        {"sha256": None},
        {"sha256": "0" * 64},
        {"workspace_bytes": None, "statistics": None},
        {"workspace_bytes": -1},
        {"workspace_bytes": "64"},
        {"workspace_bytes": 10**400},
        {"statistics": [1]},
        {"statistics": {"dispatches": "many"}},
    ],
    ids=str,
)
def test_an_entry_that_the_pipeline_has_not_made_is_a_miss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, made: Any, changes: dict[str, Any]
) -> None:
    """Its seal is right, and so is its key: somebody has made the rest up."""
    first, manifest, files = made
    with scope(cache_dir=tmp_path):
        changed = {k: v for k, v in {**manifest, **changes}.items() if v is not None}
        store().put(first.key, files, changed)
        again = compile_source(relu(), CPU)
    assert (again.cache, again.statistics) == ("miss", first.statistics)
    assert [r.getMessage() for r in caplog.records if "damaged" in r.getMessage()] != []
