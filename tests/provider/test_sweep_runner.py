# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sweeps: whatever a case does to its process, it is one row, and the next case runs."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast

import misbehaving
import numpy as np
import pytest
from hipdnn_iree import DataType
from hipdnn_iree.emulation.errors import EmulationError, UnsupportedError
from hipdnn_iree.emulation.hip.executor import Emulator
from hipdnn_iree.emulation.hip.service import HipError
from hipdnn_iree.graph_api.errors import (
    CompileError,
    DeviceError,
    FormatError,
    NotSupportedError,
    Problem,
)
from hipdnn_iree.provider.sweep import case_worker, runner
from hipdnn_iree.provider.sweep.case_task import CaseTask, SweepOptions
from hipdnn_iree.provider.sweep.cluster import ClusterPool
from hipdnn_iree.provider.sweep.gpu_lock import gpu_lock
from hipdnn_iree.provider.sweep.process_pool import Ended, Limits, ProcessPool, Result, Timed
from hipdnn_iree.provider.sweep.row import Row, read_run
from hipdnn_iree.provider.sweep.run_file import RunFile
from hipdnn_iree.provider.sweep.runner import header, sweep
from hipdnn_iree.provider.sweep.suite import Case, read
from sweep_runs import row as row_of

REFERENCE = ("reference",)
LIMITS = Limits(timeout_s=60, memory=2 << 30)

SUITE = """
cases:
  - {name: add, tensors: {x: {dims: [7, 3]}}, nodes: [{op: add, in: [x, 2], out: y}], tags: [a]}
  - {name: bad, tensors: {a: {dims: [5, 4]}}, nodes: [{op: matmul, in: [a, [3, 2]], out: c}]}
  - name: product
    dtypes: [float, half]
    tensors: {a: {dims: [5, 11]}, b: {dims: [11, 3]}}
    nodes: [{op: matmul, in: [a, b], out: c}]
"""


def case(name: str, build: Callable[[DataType], Any] = misbehaving.fine) -> Case:
    return Case(name=name, dtypes=(DataType.FLOAT,), build=build)


def tasks(
    *cases: Case, engines: tuple[str, ...] = REFERENCE, target: str = "cpu", **options: Any
) -> Iterator[CaseTask]:
    for one in cases:
        yield CaseTask(
            case=one,
            engines=engines,
            target=target,
            threads=1,
            options=SweepOptions(**options),
        )


def swept(
    path: Path, todo: Iterator[CaseTask], *, limits: Limits = LIMITS, jobs: int = 2
) -> dict[str, Row]:
    """Do the tasks and return all rows of the run by their case."""
    with RunFile(path, header([], {}), resume=path.exists()) as run:
        sweep(todo, run, jobs=jobs, limits=limits)
    found = read_run(path)
    assert found.cut is None
    return {row.case: row for row in found.rows}


def lines(path: Path) -> int:
    return len(path.read_bytes().splitlines())


def test_each_way_to_fail_is_a_row_and_the_others_run(tmp_path: Path) -> None:
    builders = {
        "crash": misbehaving.crash,
        "stop": misbehaving.stop,
        "huge": misbehaving.huge,
        "grow": misbehaving.grow,
        "abort": misbehaving.abort_for_memory,
        "bug": misbehaving.raise_error,
    }
    todo = [one for n, b in builders.items() for one in (case(n, b), case(f"after {n}"))]
    path = tmp_path / "run.jsonl"
    rows = swept(path, tasks(*todo), limits=Limits(timeout_s=60, memory=400 << 20))
    assert lines(path) == 1 + len(todo)
    assert {name: rows[name].status for name in builders} == {
        "crash": "crash",
        "stop": "crash",
        "huge": "out-of-memory",
        "grow": "out-of-memory",
        "abort": "out-of-memory",
        "bug": "crash",
    }
    assert {rows[f"after {name}"].status for name in builders} == {"ok"}
    assert "SIGSEGV" in rows["crash"].detail
    assert rows["crash"].detail.startswith("graph: ")
    assert "about to read address 0" in rows["crash"].log
    assert "status 3" in rows["stop"].detail
    assert "400 MiB are allowed" in rows["grow"].detail
    assert rows["bug"].detail == "KeyError: 'a bug'"
    assert all(not rows[name].digest and rows[name].check is None for name in builders)


@pytest.mark.parametrize("build", [misbehaving.loop, misbehaving.loop_in_c])
def test_a_loop_is_a_timeout(tmp_path: Path, build: Callable[[DataType], Any]) -> None:
    todo = tasks(case("loop", build), case("after"))
    rows = swept(tmp_path / "run.jsonl", todo, limits=Limits(timeout_s=4), jobs=1)
    assert rows["loop"].status == "timeout"
    assert "no end within 4 s" in rows["loop"].detail
    assert rows["loop"].seconds > 3
    assert rows["after"].status == "ok"


def test_a_row_of_each_case_type_and_engine(tmp_path: Path) -> None:
    suite = read(SUITE, source="suite.yaml", check="keep")
    path = tmp_path / "run.jsonl"
    todo = tasks(*suite.by_type(), engines=("iree", "reference"))
    with RunFile(path, header(["sweep"], {"perf": False})) as run:
        counts = sweep(todo, run, jobs=1, limits=LIMITS)
    found = {row.key: row for row in read_run(path).rows}
    assert set(found) == {
        f"{name}|{engine}|cpu"
        for name in ("add|float", "bad|float", "product float|float", "product half|half")
        for engine in ("iree", "reference")
    }
    assert counts == {"ok": 6, "invalid": 2}
    bad = found["bad|float|iree|cpu"]
    assert (bad.status, bad.rules, bad.digest) == ("invalid", ["MATMUL-02"], "")
    assert "MATMUL-02" in bad.detail
    product = found["product half|half|iree|cpu"]
    assert (product.op, product.dtype, product.suite) == ("matmul", "half", "suite.yaml")
    assert product.source == "suite.yaml:5"
    assert len(product.digest) == 64
    assert product.compile is not None
    assert product.compile.cache in ("hit", "miss")
    assert product.compile.module_bytes
    assert product.compile.seconds
    assert product.code is not None
    assert product.code.dispatches
    assert product.check is not None
    assert (product.check.elements, product.check.bad) == (15, 0)
    assert product.check.of_bound is not None
    assert product.check.of_bound <= 1
    assert product.work is not None
    assert product.work.flops == 2 * 5 * 11 * 3
    assert product.work.bytes == 2 * (55 + 33 + 15)
    assert product.times is None
    reference = found["add|float|reference|cpu"]
    assert reference.compile is not None
    assert reference.compile.module_bytes is None
    assert reference.tags == ["a"]


def test_kinds_of_data(tmp_path: Path) -> None:
    todo = tasks(*read(SUITE, check="keep").by_type(), data="whole")
    checks = {name: row.check for name, row in swept(tmp_path / "run.jsonl", todo).items()}
    found = checks["product float"]
    assert found is not None
    assert (found.data, found.method, found.max_abs) == ("whole", "float64", 0.0)


def test_times_of_engines_come_in_turns_and_stand_in_one_write(tmp_path: Path) -> None:
    engines = ("iree", "reference")
    todo = [case("a"), case("dies", misbehaving.crash), case("b")]
    path = tmp_path / "run.jsonl"
    swept(path, tasks(*todo, engines=engines, perf=True, seconds=0.0), jobs=1)
    rows = {row.key.replace("|float", "").replace("|cpu", ""): row for row in read_run(path).rows}
    assert len(rows) == 6
    leasts: list[float] = []
    for name in "ab":
        ours, theirs = (rows[f"{name}|{engine}"] for engine in engines)
        for row in (ours, theirs):
            assert row.times is not None
            assert 0 < row.times.best_us <= row.times.median_us
            assert row.times.cold_us is not None
            assert row.work is not None
            assert row.work.tflops is not None
            expected = row.work.bytes / row.times.median_us / 1e3
            assert row.work.gbytes_per_s == pytest.approx(expected, rel=1e-3)
            assert row.work.roofline is not None
            least = row.work.roofline * row.times.median_us
            assert 0 < row.work.roofline < 1
            leasts.append(least)
        assert ours.times is not None
        assert theirs.times is not None
        assert len(ours.times.rounds_us) == len(theirs.times.rounds_us) >= 5
        assert ours.times.visits == theirs.times.visits
        assert len(ours.times.visits) == 3
        assert sum(ours.times.visits) == len(ours.times.rounds_us)
    assert leasts[0] == pytest.approx(leasts[1], rel=1e-2)  # of one graph, whoever computes it
    assert rows["dies|iree"].times is None


class _TwoKinds:
    """A pool without processes: cases with ``gpu`` in their names run on a GPU."""

    jobs = 4
    limits = LIMITS

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], bool]] = []

    def results(
        self,
        given: Iterable[CaseTask] = (),
        *,
        timed: Timed[CaseTask] | None = None,
        alone: bool = False,
    ) -> Iterator[Result[CaseTask]]:
        todo = [*given]
        while timed:
            todo.append(timed.popleft()[0])
        self.calls.append(([f"{task.case.name}{task.visit}" for task in todo], alone))
        for task in todo:
            device = "cuda:0" if "gpu" in task.case.name else "cpu"
            answer: dict[str, Any] = {"device": device, "status": "ok", "digest": task.case.name}
            if task.timed:
                samples = {"calls_us": [1.0] * 5, "rounds_us": [1.0] * 5, "cold_us": None}
                answer = {"times": {"reference": samples}, "limits": None}
            yield Result(task=task, part=0, answer=answer, seconds=0.0)


def test_what_runs_on_gpus_is_timed_several_times_while_nothing_is_built(tmp_path: Path) -> None:
    todo = tasks(case("cpu"), case("gpu a"), case("gpu b"), perf=True)
    pool, path = _TwoKinds(), tmp_path / "run.jsonl"
    with RunFile(path, header([], {})) as file:
        sweep(todo, file, jobs=1, limits=LIMITS, cluster=cast(ClusterPool, pool))
    built, *calls = pool.calls
    assert built[0] == ["cpu0", "gpu a0", "gpu b0"]
    assert calls == [
        found
        for visit in range(3)
        for found in (([f"gpu a{visit}", f"gpu b{visit}"], False), ([f"cpu{visit}"], True))
    ]
    assert {row.case: row.times.visits for row in read_run(path).rows if row.times} == {
        name: [5, 5, 5] for name in ("cpu", "gpu a", "gpu b")
    }


def test_what_is_timed_has_a_process_of_its_own_for_each_gpu() -> None:
    build, again = tasks(case("a"), case("b"))
    timed: Timed[CaseTask] = deque()
    found = []
    worker = "hipdnn_iree.provider.sweep.case_worker"
    with ProcessPool(worker, 1, LIMITS, gpus=2) as pool:
        for result in pool.results([build, again], timed=timed):
            found.append(result.task)
            if not result.task.timed:  # as soon as it is known to be right
                timed.append((replace(result.task, timed=True), LIMITS))
        slots = [process is not None for process in pool._processes]
    assert [task.timed for task in found].count(True) == 2
    assert {task.case.name for task in found} == {"a", "b"}
    assert slots[:2] == [True, True]


def test_processes_share_the_processors_but_for_what_is_timed() -> None:
    (told,) = tasks(case("a", misbehaving.tell_threads))
    timed = deque([(replace(told, timed=True), LIMITS)])
    with ProcessPool("hipdnn_iree.provider.sweep.case_worker", 64, LIMITS) as pool:
        (checked,) = pool.results([told])
        (alone,) = pool.results(timed=timed, alone=True)
    share = max(1, len(os.sched_getaffinity(0)) // 64)
    assert f"threads: {[str(share)] * 3}" in str(checked.answer)
    mine = [os.environ.get(f"{name}_NUM_THREADS") for name in ("OMP", "OPENBLAS", "MKL")]
    assert f"threads: {mine}" in str(alone.answer)


def test_a_gpu_is_for_one_process_at_a_time(until: Callable[[Callable[[], object]], None]) -> None:
    name = f"GPU-{os.getpid()}/test"
    entered = Event()

    def other() -> None:
        with gpu_lock(name):
            entered.set()

    with gpu_lock(name), gpu_lock(f"{name}2"):  # another GPU does not matter
        thread = Thread(target=other)
        thread.start()
        assert not entered.wait(0.05)
    until(entered.is_set)
    thread.join()
    for path in Path(tempfile.gettempdir()).glob(f"hipdnn-iree-*-GPU-{os.getpid()}_test*.lock"):
        path.unlink()


def test_a_target_that_is_not_here_is_compiled_only(tmp_path: Path) -> None:
    rows = swept(tmp_path / "run.jsonl", tasks(case("a"), engines=("iree",), target="gfx942"))
    row = rows["a"]
    assert (row.status, row.device, row.emulated, row.check) == ("ok", "none", False, None)
    assert row.detail.startswith("compiled only: ")
    assert row.code is not None
    assert row.code.registers
    assert (row.code.spills, row.code.mfma) == (0, 0)


class Image:
    """A code object whose kernel cannot be read."""

    base, image = 1 << 40, np.zeros(64, np.uint8)

    def __init__(self, error: EmulationError) -> None:
        self.error = error

    def ready(self, name: str) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("kind", "hip", "status", "device"),
    [
        (UnsupportedError, "hipErrorNotSupported", "ok", "none"),
        (EmulationError, "hipErrorLaunchFailure", "crash", ""),
    ],
)
def test_what_emulation_lacks_is_no_fault_of_a_kernel(
    monkeypatch: pytest.MonkeyPatch,
    kind: type[EmulationError],
    hip: str,
    status: str,
    device: str,
) -> None:
    # Kernels are executed in another process: what it answers, and what becomes of the answer.
    image: Any = Image(kind("v_odd: said by the emulation"))
    with pytest.raises(HipError, match="said by the emulation") as found:
        Emulator().launch(image, "k", (1, 1, 1), (64, 1, 1), b"", [], shared_bytes=0)
    assert found.value.status == {"hipErrorNotSupported": 801, "hipErrorLaunchFailure": 719}[hip]

    def compare(*arguments: Any) -> None:
        raise DeviceError(f"HIP driver error '{hip}': {found.value}")

    monkeypatch.setattr(case_worker._Work, "_compare", compare)
    # Nothing is launched, and emulated GPUs would stay in this process.
    monkeypatch.setattr(case_worker._Work, "_emulated", lambda self: nullcontext())
    (task,) = tasks(case("a"), engines=("iree",), target="gfx942", emulate=True)
    row = case_worker._Work(task, lambda step, **facts: None).checked("iree")
    assert row["status"] == status
    assert "said by the emulation" in row["log"]
    assert "check" not in row
    if device:
        assert (row["device"], row["emulated"]) == (device, False)
        assert row["detail"].startswith("compiled only: ")


def test_what_is_right_by_emulation(tmp_path: Path) -> None:
    todo = tasks(case("a"), engines=("iree",), target="gfx942", emulate=True, perf=True)
    row = swept(tmp_path / "run.jsonl", todo)["a"]
    assert (row.status, row.device, row.emulated, row.times) == ("ok", "emulated", True, None)
    assert row.check is not None
    assert (row.check.elements, row.check.bad) == (15, 0)


def test_a_run_that_is_complete_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    todo = [case("a"), case("b"), case("dies", misbehaving.crash)]
    swept(path, tasks(*todo))
    before = path.read_bytes()
    swept(path, tasks(*todo))
    assert path.read_bytes() == before
    # A case that has become another problem is done again, and what is new is added.
    rows = swept(path, tasks(case("a", misbehaving.other), case("b"), case("c")))
    assert lines(path) == lines_of(before) + 2
    assert rows["a"].digest != rows["b"].digest
    assert set(rows) == {"a", "b", "c", "dies"}


def lines_of(data: bytes) -> int:
    return len(data.splitlines())


def test_what_is_stopped_leaves_no_process(tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop(row: Row | None) -> None:
        raise StopError

    before = children()
    path = tmp_path / "run.jsonl"
    todo = tasks(case("a"), case("b", misbehaving.loop), case("c", misbehaving.loop))
    with RunFile(path, header([], {})) as run, pytest.raises(StopError):
        sweep(todo, run, jobs=2, limits=LIMITS, told=stop)
    assert children() == before
    assert [row.case for row in read_run(path).rows] == ["a"]


def children() -> set[int]:
    """Return the ids of this process's children."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.add(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("error", "status", "rules"),
    [
        (FormatError("no", [Problem(rule="TENSOR-02")]), "invalid", ["TENSOR-02"]),
        (NotSupportedError("no engine"), "declined", []),
        (CompileError("no", stage="compile"), "compile-error", []),
        (CompileError("late", stage="timeout", cause="time"), "timeout", []),
        (CompileError("large", stage="crash", cause="memory"), "out-of-memory", []),
        (MemoryError(), "out-of-memory", []),
        (RuntimeError("RESOURCE_EXHAUSTED; failed to allocate"), "out-of-memory", []),
        (ZeroDivisionError("by zero"), "crash", []),
    ],
)
def test_errors_become_statuses(error: Exception, status: str, rules: list[str]) -> None:
    found = case_worker._failure(error)
    assert (found["status"], found.get("rules", [])) == (status, rules)
    assert found["detail"]
    assert "\n" not in found["detail"]


def answered(rounds_us: list[float]) -> dict[str, Any]:
    times = {"calls_us": rounds_us, "rounds_us": rounds_us, "cold_us": None}
    return {"times": {"iree": times, "reference": times}, "limits": None}


def test_a_process_that_ends_at_a_later_visit_is_a_row() -> None:
    (task,) = tasks(case("a"), engines=("iree", "reference"))
    one = runner._Right(task, {name: row_of("a", engine=name) for name in task.engines})
    timing = runner._Timing(LIMITS)

    ended = Ended(reason="crash", detail="signal 11")
    for visit, answer in enumerate((answered([3.0, 1.0]), ended)):
        timing.add(one, 3)
        ((timed, _),) = timing.queue
        timing.queue.clear()
        assert (timed.visit, timed.visits) == (visit, 3)
        assert list(timing.rows(Result(task=timed, part=0, answer=answer, seconds=1.0))) == []
    assert one.ended
    # Each engine alone now, once: one ends the process again.
    alone = [task for task, _ in timing.queue]
    assert [(task.engines, task.visit, task.visits) for task in alone] == [
        (("iree",), 0, 1),
        (("reference",), 0, 1),
    ]
    (crashed,) = timing.rows(Result(task=alone[0], part=0, answer=ended, seconds=1.0))
    found = Result(task=alone[1], part=0, answer=answered([2.0, 4.0, 3.0]), seconds=1.0)
    (right,) = timing.rows(found)
    assert [one.status for one in (*crashed, *right)] == ["crash", "ok"]
    assert right[0].times is not None
    assert (right[0].times.rounds_us, right[0].times.visits) == ([2.0, 4.0, 3.0], [])
