# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every way to call a plan, tried on a device: each check says what it measured or raises.

They run on the host as well (target ``cpu``), where those of streams are left out.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hipdnn_iree.graph_api.errors import BindError
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.jit.runtime.caller_memory import Pointer
from hipdnn_iree.jit.runtime.workspaces import pool_of
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.plan import Plan
from hipdnn_iree.provider.registry import engine

from tools.gpu.gpu_memory import Memory

__all__ = ["CHECKS", "Bench", "check_calls"]

Array = npt.NDArray[Any]
Found = dict[str, Any]


def chain(rows: int, width: int = 128) -> Graph:
    """Return y = relu(x·w + b)·v: two matmuls with an intermediate in the workspace."""
    graph = Graph("chain", io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(rows, width), name="x")
    w, v = (graph.tensor(dims=(width, width), name=n) for n in ("w", "v"))
    b = graph.tensor(dims=(1, width), name="b")
    hidden = graph.relu(graph.add(graph.matmul(x, w), b))
    graph.matmul(hidden, v).set_output().set_name("y")
    return graph


@dataclass
class Problem:
    """Buffers of one run on the device, and the result that is right."""

    memory: Memory
    buffers: dict[Any, Any]
    wanted: Array

    def clear(self) -> None:
        """Overwrite the result with NaN."""
        self.buffers["y"] = self.memory.put(np.full_like(self.wanted, np.nan))

    def check(self, factor: float = 1.0) -> None:
        """Raise AssertionError unless the result is right, to a 2,000th of its largest value."""
        got = self.memory.get(self.buffers["y"])
        bound = 5e-4 * float(np.abs(self.wanted).max())
        worst = float(np.abs(got - factor * self.wanted).max())
        if not worst <= bound:  # also for NaN
            raise AssertionError(f"off by {worst:.3g}, allowed {bound:.3g}")


@dataclass
class Bench:
    """A plan, where its buffers are, and how often to repeat."""

    plan: Plan
    memory: Memory
    rows: int
    repeat: int = 50

    @classmethod
    def make(cls, target: Target, memory: Memory, rows: int = 256, repeat: int = 50) -> Bench:
        """Build the chain for a target."""
        return cls(
            engine("iree", settings()).build(chain(rows).freeze(), target), memory, rows, repeat
        )

    def problem(self, seed: int = 0) -> Problem:
        """Return random operands on the device."""
        rng = np.random.default_rng(seed)
        found: dict[Any, Any] = {}
        for name, dims in (
            ("x", (self.rows, 128)),
            ("w", (128, 128)),
            ("v", (128, 128)),
            ("b", (1, 128)),
        ):
            found[name] = rng.standard_normal(dims, np.float32) / 8
        wide = {name: array.astype(np.float64) for name, array in found.items()}
        wanted = np.maximum(wide["x"] @ wide["w"] + wide["b"], 0) @ wide["v"]
        result = Problem(
            self.memory, {n: self.memory.put(a) for n, a in found.items()}, wanted.astype("f4")
        )
        result.clear()
        return result

    @property
    def executable(self) -> Any:
        """The loaded code."""
        return self.plan.executable  # type: ignore[attr-defined]


def refused(rule: str, bench: Bench, buffers: dict[Any, Any], workspace: Any = None) -> None:
    """Raise AssertionError unless just this rule is reported."""
    found: set[str] = set()
    try:
        bench.plan.execute(buffers, workspace)
    except BindError as error:
        found = {problem.rule for problem in error.problems}
    assert found == {rule}, f"reported: {', '.join(sorted(found)) or 'nothing'}; wanted {rule}"


def through_dlpack(bench: Bench) -> Found:
    """Buffers are exported through DLPack and used in place."""
    for seed in range(3):
        problem = bench.problem(seed)
        bench.plan.execute(problem.buffers)
        problem.check()
    bound = bench.plan.bind(problem.buffers)
    assert not getattr(bound, "staged", ()), "something was copied"
    return {"workspace_bytes": bench.plan.workspace_bytes}


def raw_pointers(bench: Bench) -> Found:
    """Addresses, with and without a size."""
    problem = bench.problem(1)
    addresses = {n: bench.memory.address(b) for n, b in problem.buffers.items()}
    bench.plan.execute(addresses)
    problem.check()
    problem.clear()
    addresses["y"] = bench.memory.address(problem.buffers["y"])
    sizes = {"x": bench.rows * 512, "y": bench.rows * 512, "b": 512, "w": 65536, "v": 65536}
    bench.plan.bind({n: Pointer(a, sizes[n]) for n, a in addresses.items()})()
    problem.check()
    refused("BIND-09", bench, {**addresses, "x": Pointer(addresses["x"], 8)})
    return {}


def external_workspace(bench: Bench) -> Found:
    """The caller's scratch memory: enough, misaligned, too little."""
    size = bench.plan.workspace_bytes
    assert size > 0, "the chain needs no workspace"
    problem = bench.problem(2)
    space = bench.memory.raw(size + 64)
    for workspace in (space, Pointer(bench.memory.address(space) + 16, size + 48)):
        problem.clear()
        bench.plan.execute(problem.buffers, workspace)
        problem.check()
    problem.clear()
    refused("BIND-11", bench, problem.buffers, bench.memory.raw(size - 64))
    return {"bytes": size}


def host_arrays(bench: Bench) -> Found:
    """Arrays of the host: carried over by ``run`` and ``copy=True``, else refused on a GPU."""
    problem = bench.problem(3)
    host = {n: bench.memory.get(b) for n, b in problem.buffers.items() if n != "y"}
    (result,) = bench.plan.run(host).values()
    problem.buffers["y"] = bench.memory.put(result)
    problem.check()
    out = np.full_like(problem.wanted, np.nan)
    bench.plan.bind({**host, "y": out}, copy=True)()
    problem.buffers["y"] = bench.memory.put(out)
    problem.check()
    if bench.memory.streams:
        refused("BIND-12", bench, {**host, "y": out})
    return {}


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run work in threads; raise what the first of them raised."""
    failures: list[BaseException] = []

    def body(index: int) -> None:
        try:
            work(index)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def many_threads(bench: Bench) -> Found:
    """Eight threads execute and bind; they share few workspaces."""

    def work(index: int) -> None:
        problem = bench.problem(10 + index)
        for turn in range(bench.repeat):
            problem.clear()
            if turn % 2:
                bench.plan.execute(problem.buffers)
            else:
                bench.plan.bind(problem.buffers)()
            problem.check()

    in_threads(8, work)
    pool = pool_of(bench.executable.device)
    assert pool.count <= 9, f"{pool.count} workspaces"
    return {"workspaces": pool.count, "bytes": pool.nbytes}


def started_runs(bench: Bench) -> Found:
    """Runs that are started: in order on one plan, ordered by ``after``, awaited, dropped."""
    problem = bench.problem(4)
    bound: Any = bench.plan.bind(problem.buffers)
    pendings = [bound.submit() for _ in range(bench.repeat)]
    assert all(p.wait(60) for p in pendings)
    problem.check()

    # Two runs in a row, the second on the first one's result as its operand x.
    first, second = bench.problem(5), bench.problem(6)
    one = bench.plan.execute_async(first.buffers)
    second.buffers |= {"x": first.buffers["y"]}
    bench.plan.execute_async(second.buffers, after=[one]).wait()
    first.check()
    w, b, v = (bench.memory.get(second.buffers[n]) for n in "wbv")
    second.wanted = np.maximum(first.wanted @ w + b, 0) @ v
    second.check()

    async def many() -> None:
        problems = [bench.problem(seed) for seed in range(4)]
        await asyncio.gather(*(_awaited(bench, p) for p in problems))
        for each in problems:
            each.check()

    asyncio.run(many())
    problem.clear()
    bench.plan.execute_async(problem.buffers)  # dropped: it goes on
    bench.plan.execute_async(problem.buffers).wait()  # behind it
    problem.check()
    return {}


async def _awaited(bench: Bench, problem: Problem) -> None:
    await bench.plan.execute_async(problem.buffers)


def many_sets(bench: Bench) -> Found:
    """``execute_many`` against a loop, and sets that read what earlier ones wrote."""
    problems = [bench.problem(seed) for seed in range(16)]
    sets = [p.buffers for p in problems] * 4
    bench.plan.execute_many(sets)
    for problem in problems:
        problem.check()
    line = [bench.problem(seed) for seed in range(3)]
    for before, after in itertools.pairwise(line):
        after.buffers["x"] = before.buffers["y"]
        w, b, v = (bench.memory.get(after.buffers[n]) for n in "wbv")
        after.wanted = np.maximum(before.wanted @ w + b, 0) @ v
    bench.plan.execute_many([p.buffers for p in line])
    line[-1].check()

    def loop() -> None:
        for buffers in sets:
            bench.plan.execute(buffers)

    many, one = compared(lambda: bench.plan.execute_many(sets), loop, bench.repeat)
    return {"many_us": many / len(sets), "loop_us": one / len(sets), "ratio": many / one}


def compared(first: Callable[[], Any], second: Callable[[], Any], rounds: int) -> list[float]:
    """Return the median microseconds of two things done in turn."""
    times: list[list[float]] = [[], []]
    for _ in range(max(rounds // 5, 5)):
        for taken, call in zip(times, (first, second), strict=True):
            begin = time.perf_counter()
            call()
            taken.append((time.perf_counter() - begin) * 1e6)
    return [statistics.median(taken) for taken in times]


def behind_a_stream(bench: Bench) -> Found:
    """A run comes after the work that is still queued on the caller's stream.

    Also reported is whether a run that was given no stream came too early, as it should: otherwise
    the queued work is too short to show anything.
    """
    bench.plan.execute(bench.problem().buffers)
    for how in ("execute", "execute_async", "execute_many", "default"):
        problem, stream = bench.problem(7), bench.memory.stream()
        operand = problem.buffers["x"]
        problem.buffers["x"] = bench.memory.put(np.zeros((bench.rows, 128), np.float32))
        if how == "default":
            bench.memory.slowly(None, problem.buffers["x"], operand)
            bench.plan.execute(problem.buffers, stream=0)
        else:
            bench.memory.slowly(stream, problem.buffers["x"], operand)
            if how == "execute":
                bench.plan.execute(problem.buffers, stream=stream)
            elif how == "execute_many":
                bench.plan.execute_many([problem.buffers] * 3, stream=stream)
            else:
                bench.plan.execute_async(problem.buffers, stream=stream).wait()
        problem.check()
        bench.plan.forget_stream(stream)
    problem = bench.problem(7)
    operand = problem.buffers["x"]
    problem.buffers["x"] = bench.memory.put(np.zeros((bench.rows, 128), np.float32))
    problem.clear()
    bench.memory.slowly(bench.memory.stream(), problem.buffers["x"], operand)
    # Addresses, as PyTorch orders what it exports behind the current stream.
    bench.plan.execute({n: bench.memory.address(b) for n, b in problem.buffers.items()})
    try:
        problem.check()
    except AssertionError:
        return {"early_without_stream": True}
    return {"early_without_stream": False}


def streams_in_parallel(bench: Bench) -> Found:
    """Eight streams, each in a thread of its own; what that gains over one after another."""
    problems = [bench.problem(20 + i) for i in range(8)]
    streams = [bench.memory.stream() for _ in problems]
    plans: list[Any] = [
        bench.plan.on_stream(s).bind(p.buffers) for s, p in zip(streams, problems, strict=True)
    ]

    def work(index: int) -> None:
        for _ in range(bench.repeat):
            plans[index]()

    for index in range(len(plans)):
        work(index)
    for problem in problems:
        problem.check()

    def one_after_another() -> None:
        for index in range(len(plans)):
            work(index)

    alone, together = compared(one_after_another, lambda: in_threads(len(plans), work), 25)
    for problem in problems:
        problem.check()
    begun = [plan.submit() for plan in plans for _ in range(bench.repeat)]
    assert all(p.wait(60) for p in begun)
    for problem in problems:
        problem.check()
    calls = len(plans) * bench.repeat
    return {"alone_us": alone / calls, "together_us": together / calls, "gain": alone / together}


def overhead(bench: Bench) -> Found:
    """What a bound plan costs over IREE's bare call, and a started run until it returns."""
    from iree.runtime import VmVariantList

    problem = bench.problem(8)
    bound: Any = bench.plan.bind(problem.buffers)
    parts = bound._parts
    space = parts.source.acquire()
    arguments, results = parts.lists(space).at(()), VmVariantList(0)
    invoke, main = parts.module.context.invoke, parts.function

    def repeated(call: Callable[[], Any]) -> Callable[[], None]:
        def loop() -> None:
            for _ in range(100):
                call()

        return loop

    bare, plan = compared(repeated(lambda: invoke(main, arguments, results)), repeated(bound), 60)
    parts.source.release(space)
    begun: list[Any] = []
    _, start = compared(lambda: [p.wait() for p in begun], lambda: begun.append(bound.submit()), 60)
    for pending in begun:
        pending.wait()
    return {"bare_us": bare / 100, "over_us": (plan - bare) / 100, "submit_us": start}


def growth(bench: Bench) -> Found:
    """Memory of the process after many calls, and the device's workspaces."""
    import resource
    from pathlib import Path

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    problem = bench.problem(9)
    bound: Any = bench.plan.bind(problem.buffers)

    def calls(count: int) -> None:
        for _ in range(count):
            bound()
            bench.plan.execute(problem.buffers)
            bound.submit().wait()

    calls(200)
    before, spaces = resident(), pool_of(bench.executable.device).count
    count = 100 * bench.repeat
    calls(count)
    gained = resident() - before
    assert gained < 4 << 20, f"{gained:,} bytes more after {3 * count} calls"
    assert pool_of(bench.executable.device).count <= spaces + 1
    return {"calls": 3 * count, "bytes": gained}


CHECKS: tuple[Callable[[Bench], Found], ...] = (
    through_dlpack,
    raw_pointers,
    external_workspace,
    host_arrays,
    many_threads,
    started_runs,
    many_sets,
    behind_a_stream,
    streams_in_parallel,
    overhead,
    growth,
)
_OF_STREAMS = (behind_a_stream, streams_in_parallel)


def check_calls(bench: Bench) -> Iterator[Found]:
    """Yield for each check its name, ``ok``, what it measured, and the error if there is one."""
    for check in CHECKS:
        if check in _OF_STREAMS and not bench.memory.streams:
            continue
        begin = time.perf_counter()
        row: Found = {"check": check.__name__, "ok": True}
        try:
            row |= check(bench)
        except Exception as error:  # each check is reported, and the others go on
            first = str(error).strip().partition("\n")[0][:300]
            row |= {"ok": False, "error": f"{type(error).__name__}: {first}"}
        row["seconds"] = round(time.perf_counter() - begin, 2)
        yield row
