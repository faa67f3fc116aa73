# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Threads that execute, start, build and drop the same plans at once; handles of the plugin too."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.plan import Plan
from hipdnn_iree.provider.reference.inputs import poisoned_outputs, random_inputs
from hipdnn_iree.provider.selection.select import build
from hipdnn_iree.provider.sweep.fuzz.random_graphs import random_graph

from tools.host.driver import Host
from tools.soak.attack import Budget, Result, resident_mib, watch_memory

__all__ = ["run"]

_THREADS = 6
_PLANS = 4
_ROUND_S = 2.0
_DRIVERS = ("local-sync", "local-task")


@dataclass
class Problem:
    """A plan that every thread shares, with inputs and the results that they must give."""

    plan: Plan
    inputs: dict[int, Any]
    results: dict[int, Any]

    @classmethod
    def of(cls, seed: int, driver: str) -> Problem:
        """Build a random graph; what its numbers are worth is for `random_graphs` to say."""
        graph = random_graph(seed, nodes=3).freeze()
        plan = build(
            graph, Target.parse("cpu"), settings(), engine="iree", knobs={"driver": driver}
        )
        inputs: dict[Any, Any] = random_inputs(graph, seed)
        results: dict[Any, Any] = poisoned_outputs(graph)
        plan.execute({**inputs, **results})
        return cls(plan, inputs, results)

    def again(self) -> Plan:
        """Build the plan once more; its code is in the cache."""
        plan = self.plan
        return build(plan.graph, plan.target, settings(), engine="iree", knobs=plan.knobs)

    def check(self, outputs: dict[int, Any]) -> None:
        """Compare results bit by bit: the same code on the same inputs."""
        for uid, array in outputs.items():
            if array.tobytes() != self.results[uid].tobytes():
                raise AssertionError(f"other results in a thread: {self.plan.graph.name}")


def _problems(seed: int) -> Iterator[Problem]:
    """Yield problems, of graphs that compile."""
    seeds = count(seed)
    for number in range(_PLANS):
        while True:
            try:
                yield Problem.of(next(seeds), _DRIVERS[number % 2])
                break
            except CompileError:
                continue


def _work(rng: Random, problems: list[Problem], until: float, found: Result) -> None:
    """Do one thing after another until the time is over."""
    while time.monotonic() < until:
        problem, what = (
            rng.choice(problems),
            rng.choice(("execute", "execute", "async", "drop", "build")),
        )
        outputs = poisoned_outputs(problem.plan.graph)
        buffers: dict[Any, Any] = {**problem.inputs, **outputs}
        if what == "drop":  # whoever does not wait keeps nothing alive that is still written
            problem.plan.execute_async(buffers)
        else:
            plan = problem.again() if what == "build" else problem.plan
            if what == "async":
                runs = [plan.execute_async(buffers) for _ in range(3)]
                for pending in runs:
                    pending.wait()
            else:
                plan.execute(buffers)
            problem.check(outputs)
        found.counts[what] += 1


def _round(rng: Random, problems: list[Problem], found: Result) -> None:
    results = [Result() for _ in range(_THREADS)]
    until = time.monotonic() + _ROUND_S

    def body(own: Result, seed: int) -> None:
        try:
            _work(Random(seed), problems, until, own)
        except Exception as error:
            own.fail(f"{type(error).__name__} in a thread: {error!s:.300}")

    threads = [threading.Thread(target=body, args=(own, rng.random())) for own in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        if thread.is_alive():
            found.fail("a thread does not end")
    for own in results:
        found.add(own)


def run(budget: Budget, seed: int) -> Result:
    """Attack until the time is over."""
    found, rng = Result(), Random(seed)
    host = Host(budget.scratch)
    problems = list(_problems(seed))
    with watch_memory(found) as note:
        for index in budget.rounds(found):
            _round(rng, problems, found)
            note(resident_mib())
            if index % 20 == 0:  # handles made and freed by eight threads, in a host in C
                done = subprocess.run(
                    host.words("storm"),
                    check=False,
                    env=host.environ(HOST_BRIEF="1"),
                    capture_output=True,
                    timeout=500,
                )
                found.counts["storm of handles"] += 1
                if done.returncode:
                    found.fail(f"storm of handles: {done.returncode} {done.stdout[-300:]!r}")
    return found
