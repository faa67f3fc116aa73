"""What the numbers of repeated measurements mean, and what the comparison of files says."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.provider.timing import (
    BENCHMARK,
    Times,
    geomean,
    measure,
    paired_ratio,
    undisturbed,
)

from tools.compare_times import compare

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_compare"


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
    assert again.low <= again.ratio <= again.high


def test_small_changes_and_few_rounds_say_nothing() -> None:
    exact, more = [100.0 + i / 1000 for i in range(20)], [103.0 + i / 1000 for i in range(20)]
    found = compare(exact, more)
    assert (found.verdict, found.p < 0.01, found.low > 1) == ("same", True, True)
    assert compare(exact, more, tolerance=0.01).verdict == "slower"
    assert compare([1.0] * 3, [2.0] * 3).verdict == "same"
    assert compare([1.0] * 9, [1.0] * 9).p == 1


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


# ---------------------------------------------------------------------------- files


def results(cases: dict[str, list[float]], cpu: str = "one") -> dict[str, Any]:
    return {
        "machine": {"cpu": cpu, "processors": 2},
        "engines": ["iree", "torch"],
        "baseline": "torch",
        "cases": [
            {
                "name": name,
                "digest": name,
                "engines": {
                    "iree": {"rounds_us": rounds} if rounds else {"error": "x"},
                    "torch": {"rounds_us": [100.0] * len(rounds)},
                },
            }
            for name, rounds in cases.items()
        ],
    }


@pytest.fixture
def bench_compare(tmp_path: Path) -> Any:
    def call(before: Any, after: Any, *words: str) -> tuple[int, str, str]:
        for name, data in (("a.json", before), ("b.json", after)):
            (tmp_path / name).write_text(data if isinstance(data, str) else json.dumps(data))
        command = [sys.executable, SCRIPT, tmp_path / "a.json", tmp_path / "b.json", *words]
        found = subprocess.run(command, capture_output=True, text=True)
        assert "Traceback" not in found.stderr
        return found.returncode, found.stdout, found.stderr

    return call


def test_two_files(bench_compare: Any) -> None:
    before = results({"kept": times(50, 1), "worse": times(50, 2), "gone": times(50, 3)})
    after = results({"kept": times(50, 4), "worse": times(80, 5), "new": times(50, 6)})
    code, out, _ = bench_compare(before, after, "--json")
    data = json.loads(out)
    assert (code, data["ok"], data["relative_to"]) == (1, False, None)
    verdicts = {row["name"]: row["verdict"] for row in data["cases"]}
    assert verdicts == {"kept": "same", "worse": "slower", "gone": "gone", "new": "new"}
    code, out, _ = bench_compare(before, before)
    assert code == 0
    assert "geometric mean 1.000; 0 slower" in out
    # What failed and runs now is no regression; what runs no more is one.
    failing = results({"kept": []})
    assert bench_compare(failing, results({"kept": times(50, 1)}))[0] == 0
    assert bench_compare(results({"kept": times(50, 1)}), failing)[0] == 1


def test_other_machines_are_compared_by_the_baseline(bench_compare: Any) -> None:
    before, after = results({"a": times(50, 1)}), results({"a": times(50, 2)}, cpu="two")
    code, out, _ = bench_compare(before, after)
    assert code == 0
    assert out.startswith("time by torch's of iree, after / before")
    after["cases"][0]["engines"]["torch"]["rounds_us"] = [50.0] * 20
    assert bench_compare(before, after)[0] == 1
    assert bench_compare(before, after, "--absolute")[0] == 0


def test_bad_files(bench_compare: Any) -> None:
    good = results({"a": times(50, 1)})
    for bad in ("no json", "{}", "[]"):
        code, out, err = bench_compare(good, bad)
        assert (code, out) == (2, "")
        assert "b.json holds no benchmark results" in err
    assert bench_compare(good, good, "--engine", "cudnn")[0] == 2
    other = results({"a": times(50, 1)}, cpu="two")
    other["baseline"] = None
    assert bench_compare(good, other)[0] == 2
