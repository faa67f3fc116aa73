# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What rows say of code: its IR, by which rows of other versions hold, and its instructions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graph_rows import emulated_row, row_of_graph
from hipdnn_iree import DataType, Graph
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.options import CompileOptions
from hipdnn_iree.jit.pipeline import ir_digest
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.sweep import case_worker
from hipdnn_iree.provider.sweep.case_task import CaseTask, SweepOptions
from hipdnn_iree.provider.sweep.process_pool import Limits
from hipdnn_iree.provider.sweep.row import CodeFacts, Header, encode, read_run, row_key
from hipdnn_iree.provider.sweep.run_file import RunFile
from hipdnn_iree.provider.sweep.runner import sweep
from hipdnn_iree.provider.sweep.suite import Case
from misbehaving import fine, other
from sweep_runs import header, row

CPU, GFX942 = Target.parse("cpu"), Target.parse("gfx942")


def added(data_type: DataType, size: int = 3, gap: int = 0) -> Graph:
    graph = Graph(io_data_type=data_type)
    x = graph.tensor(dims=(5, size))
    y = graph.add(graph.mul(x, graph.runtime_scalar(data_type="half")), x)
    y.set_output().set_stride((size + gap, 1))
    return graph


def frozen(**how: int) -> FrozenGraph:
    return added(DataType.HALF, **how).freeze()


def task(build: Callable[[DataType], Graph] = fine, **known: Any) -> CaseTask:
    case = Case(name="one", dtypes=(DataType.HALF,), build=build)
    about: dict[str, Any] = {"engines": ("iree",), "target": "cpu", "threads": 1}
    return CaseTask(case=case, options=SweepOptions(), **about, **known)


def test_the_digest_is_of_what_is_compiled() -> None:
    options = CompileOptions.of(settings())
    mine = ir_digest(frozen(), CPU, options)
    assert mine == ir_digest(frozen(), CPU, options)
    with scope(compiler_extra_flags="--iree-opt-strip-assertions"):
        flags = CompileOptions.of(settings())
    others = [
        ir_digest(frozen(size=4), CPU, options),
        ir_digest(frozen(), GFX942, options),
        ir_digest(frozen(), CPU, flags),
    ]
    assert len({mine, *others}) == 4
    with scope(compiler_jobs=1):
        built = row_of_graph(frozen())
        again = row_of_graph(frozen())
    assert again["compile"]["cache"] == "hit"
    assert built["code"]["ir"] == again["code"]["ir"] == mine


def test_the_same_ir_is_not_compiled_again() -> None:
    def work(irs: dict[str, str]) -> dict[str, Any]:
        asked = task(irs=irs)
        return case_worker._Work(asked, lambda step, **facts: None).checked("iree")

    mine = ir_digest(fine(DataType.HALF).freeze(), CPU, CompileOptions.of(settings()))
    kept = work({"iree": mine})
    assert (kept["kept"], kept.keys() & {"compile", "check"}) == (True, set())
    for irs in ({"iree": "of other IR"}, {"torch": mine}, {}):
        assert "check" in work(irs)


@pytest.mark.parametrize(
    ("changed", "held"),
    [
        ({"versions": {"hipdnn-iree": "2"}}, {"right"}),
        ({"machine": {"cpu": "another"}}, {"right"}),
        ({"options": {"emulate": True}, "versions": {"hipdnn-iree": "2"}}, set()),
    ],
    ids=["versions", "machine", "options"],
)
def test_rows_that_are_right_hold_by_their_ir(
    tmp_path: Path, changed: dict[str, dict[str, Any]], held: set[str]
) -> None:
    path = tmp_path / "run.jsonl"
    code = CodeFacts(dispatches=1, transient_bytes=0, ir="1")
    rows = [row("right", code=code), row("bad", status="wrong", code=code), row("old")]
    before = header()
    path.write_bytes(b"".join(map(encode, (before, *rows))))
    now = Header(
        created="later", argv=[],
        **{part: {**getattr(before, part), **changed.get(part, {})}
           for part in ("machine", "versions", "options")},
    )  # fmt: skip
    plain = tmp_path / "plain.jsonl"
    plain.write_bytes(path.read_bytes())
    with RunFile(plain, now, resume=True) as run:
        assert not run.irs
        assert not run.known
    with RunFile(path, now, resume=True, same_ir=True) as run:
        assert run.irs == {row_key(case, "float", "iree", "cpu"): "1" for case in held}
        assert not run.known
        (said,) = run.said
        assert "3 rows were made under other conditions" in said
        assert ("but for those of the same IR" in said) == bool(held)
        run.append(row("right", code=code))
    with RunFile(path, now, resume=True, same_ir=True) as run:
        assert not run.irs.keys() & run.known.keys()


def test_a_resumed_sweep_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    limits, now = Limits(timeout_s=60), header()
    with RunFile(path, now) as run:
        sweep([task()], run, jobs=1, limits=limits)
    first = path.read_bytes()
    now.versions["lowering"] = "of tomorrow"
    with RunFile(path, now, resume=True, same_ir=True) as run:
        assert not sweep([task()], run, jobs=1, limits=limits)
    assert path.read_bytes() == first + encode(now)
    (one,) = read_run(path).rows
    assert (one.status, read_run(path).header_of) == ("ok", (0,))
    with RunFile(path, now, resume=True, same_ir=True) as run:
        made = sweep([task(other)], run, jobs=1, limits=limits)
    assert made == {"ok": 1}


def test_instructions_of_what_is_emulated() -> None:
    found = emulated_row(frozen(gap=2), instructions=True)
    assert (found["status"], found["device"]) == ("ok", "emulated")
    facts = found["instructions"]
    assert facts["kernels"] == facts["launched"] == facts["met"]["s_endpgm"] == 2
    assert sum(facts["met"].values()) > 5
    assert set(facts["missed"]) <= {"s_nop"}  # the padding behind the end
    assert facts["different"] == {}
    found = row_of_graph(frozen(gap=2), target="gfx942", instructions=True)
    assert found["device"] == "none"
    assert found["instructions"].keys() == {"kernels", "met", "different"}
    assert "instructions" not in row_of_graph(frozen(), instructions=True)


def test_what_emulation_writes_beside_the_elements_is_told() -> None:
    found = emulated_row(frozen(gap=2), damage_at=-1)
    assert found["status"] == "wrong"
    assert "1 bytes around its elements, from -1" in found["detail"]
    assert found["check"]["bad"] == 0
