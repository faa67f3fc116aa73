# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the numbers of repeated measurements mean."""

from __future__ import annotations

import itertools
import math
import os
import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.jit.runtime.repeated import Repeated
from hipdnn_iree.provider.sweep.compare_times import compare
from hipdnn_iree.provider.timing import (
    BENCHMARK,
    Times,
    cold_repeated,
    geomean,
    measure,
    measure_repeated,
    paired_ratio,
    undisturbed,
)


def times(middle: float, seed: int, n: int = 20, noise: float = 0.1) -> list[float]:
    """Times as of a busy machine: never below the middle, some far above."""
    draw = random.Random(seed)
    return [
        middle * (1 + noise * draw.expovariate(1) + 4 * (draw.random() < 0.1)) for _ in range(n)
    ]


def test_summaries() -> None:
    found = Times.of([5.0, 1.0, 3.0, 2.0, 100.0])
    assert (found.median, found.best, found.samples) == (3.0, 1.0, 5)
    assert found.noise == pytest.approx(0.5)
    assert Times.of([7.0]).noise == 0
    assert Times.of([1.0, 2.0, 3.0]).low == 1.5
    assert geomean([]) is None
    assert geomean([2.0, 8.0]) == pytest.approx(4)


def test_what_slows_a_round_down_does_not_count() -> None:
    ours, theirs = [2.0, 2.0, 40.0, 2.0, 2.0], [1.0, 1.0, 20.0, 1.0, 10.0]
    assert paired_ratio(ours, theirs) == 2


@pytest.mark.parametrize("seed", range(6))
def test_changes_are_told_from_noise(seed: int) -> None:
    before = times(100, seed)
    assert compare(before, times(100, seed + 100)).verdict == "same"
    assert compare(before, times(130, seed + 200)).verdict == "slower"
    assert compare(before, times(70, seed + 300)).verdict == "faster"
    again = compare(before, times(130, seed + 200))
    assert again == compare(before, times(130, seed + 200))
    assert again.low is not None
    assert again.high is not None
    assert again.low <= again.ratio <= again.high


def test_small_changes_and_few_rounds_say_nothing() -> None:
    exact, more = [100.0 + i / 1000 for i in range(20)], [103.0 + i / 1000 for i in range(20)]
    found = compare(exact, more)
    assert (found.verdict, found.p < 0.01, found.low) == ("same", True, None)
    assert compare(exact, more, tolerance=0.01).verdict == "slower"
    assert compare([1.0] * 3, [2.0] * 3).verdict == "same"
    assert compare([1.0] * 9, [1.0] * 9).p == 1
    # Of five and five, the one order of 252 with all slower, on either side, is enough.
    found = compare([1.0, 1.1, 1.2, 1.3, 1.4], [1.5, 1.6, 1.7, 1.8, 1.9])
    assert (found.verdict, found.p) == ("slower", pytest.approx(2 / 252))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 4), (5, 5), (2, 7)])
def test_ranks_are_counted(n: int, m: int) -> None:
    values = [1.0 + v for v in range(n + m)]
    far: dict[float, int] = {}
    for chosen in itertools.combinations(range(n + m), n):
        u = sum(chosen) - n * (n - 1) / 2
        far[min(u, n * m - u)] = far.get(min(u, n * m - u), 0) + 1
    for chosen in itertools.combinations(range(n + m), n):
        u = sum(chosen) - n * (n - 1) / 2
        extreme = sum(count for at, count in far.items() if at <= min(u, n * m - u))
        a = [values[i] for i in chosen]
        b = [values[i] for i in range(n + m) if i not in chosen]
        assert compare(a, b).p == pytest.approx(min(1.0, extreme / math.comb(n + m, n)))


def test_measuring_takes_turns() -> None:
    seen: list[str] = []
    calls = [lambda: seen.append("a"), lambda: seen.append("b")]
    a, b = measure(calls, replace(BENCHMARK, rounds=(2, 4)), budget_s=0.0)
    # One call of each block is not counted; the order turns.
    assert "".join(seen) == "aaaabbbb" + "bbbbaaaa"
    assert [len(t.calls_us) for t in (a, b)] == [6, 6]
    assert [len(t.rounds_us) for t in (a, b)] == [2, 2]
    assert a.rounds_us[0] == min(a.calls_us[:3])
    assert measure([], BENCHMARK, budget_s=0.0) == []


def test_long_calls_are_made_once_in_a_block() -> None:
    now, seen = [0.0], []

    def call(name: str, seconds: float) -> None:
        seen.append(name)
        now[0] += seconds

    calls = [partial(call, "a", 0.01), partial(call, "b", 5.0)]
    a, b = measure(calls, BENCHMARK, budget_s=0.0, clock=lambda: now[0])
    least = BENCHMARK.rounds[0]
    assert (seen.count("a"), len(a.calls_us), len(a.rounds_us)) == (4 * least, 3 * least, least)
    assert (seen.count("b"), len(b.calls_us), len(b.rounds_us)) == (least, least, least)
    assert b.calls_us == pytest.approx([5e6] * least)


def test_real_time_is_for_the_measurement_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []

    def note(thread: int, policy: int, parameter: Any) -> None:
        made.append((policy, parameter.sched_priority))

    monkeypatch.setattr(os, "sched_setscheduler", note)
    with undisturbed():
        assert set(made) == {(os.SCHED_RR, 1)}
        made.clear()
    assert set(made) == {(os.SCHED_OTHER, 0)}

    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with pytest.raises(SettingError, match="Operation not permitted"), undisturbed():
        pass


class Gpu:
    """A GPU with a clock of its own: waits, executions and writes of memory take their time."""

    def __init__(self, *, run_s: float) -> None:
        self.now = 0.0
        self.runs: list[int] = []
        self.repeated = Repeated(
            run=lambda count: self._work(count, run_s),
            cold=lambda count: self._work(count, 3 * run_s + 1e-4),
            flush=lambda count: self._work(count, 1e-4),
        )

    def _work(self, count: int, each_s: float) -> None:
        self.runs.append(count)
        self.now += 5e-5 + count * each_s


def test_a_wait_does_not_count_on_a_gpu() -> None:
    gpu = Gpu(run_s=2e-6)
    (found,) = measure_repeated(
        [gpu.repeated], replace(BENCHMARK, pause_s=0.0), budget_s=0.0, clock=lambda: gpu.now
    )
    assert max(gpu.runs) == 200
    assert len(found.rounds_us) == 5
    assert found.rounds_us[0] == pytest.approx(2.25)
    # One that takes long is waited for each time.
    slow = Gpu(run_s=5e-3)
    (found,) = measure_repeated(
        [slow.repeated], replace(BENCHMARK, pause_s=0.0), budget_s=0.0, clock=lambda: slow.now
    )
    assert set(slow.runs[2:]) == {1}
    assert found.rounds_us[0] == pytest.approx(5050)


def test_writes_between_executions_do_not_count() -> None:
    gpu = Gpu(run_s=1e-5)
    found = cold_repeated(gpu.repeated, rounds=3, clock=lambda: gpu.now)
    assert found == pytest.approx(30)
    nothing = Repeated(run=lambda _: None, cold=lambda _: None, flush=lambda _: None)
    assert cold_repeated(nothing, rounds=3, clock=lambda: 0.0) is None
