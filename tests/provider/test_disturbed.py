# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times that were taken while something else kept the machine busy, and shares of the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hipdnn_iree.jit.inspect import peaks
from hipdnn_iree.provider.cli.options import State
from hipdnn_iree.provider.cli.sweeping import Done, conclude
from hipdnn_iree.provider.sweep.disturbed import disturbed
from hipdnn_iree.provider.sweep.report import Report
from hipdnn_iree.provider.sweep.report_html import page
from hipdnn_iree.provider.sweep.row import TimeFacts, WorkFacts
from hipdnn_iree.provider.sweep.runner import with_share
from sweep_runs import row, run_of, write_run


def facts(rounds_us: Sequence[float], best_us: float) -> TimeFacts:
    middle = sorted(rounds_us)[len(rounds_us) // 2]
    return TimeFacts(
        median_us=middle, best_us=best_us, spread=0.0, rounds_us=list(rounds_us), calls=99
    )


@pytest.mark.parametrize(
    ("rounds_us", "best_us", "is_disturbed"),
    [
        ([10.0] * 9, 9.5, False),
        ([10.0, 10.5, 11.0, 12.0, 40.0], 9.9, False),  # one round of many
        ([10.0, 16.0, 10.0, 17.0, 30.0, 10.0], 10.0, True),  # the quartiles lie apart
        ([41e3, 52e3, 60e3, 80e3, 108e3], 41e3, True),
        ([90.0] * 9, 33.0, True),  # half of the rounds never came near the best call
        ([90.0], 90.0, False),
    ],
)
def test_what_is_disturbed(rounds_us: list[float], best_us: float, is_disturbed: bool) -> None:
    assert disturbed(facts(rounds_us, best_us)) is is_disturbed


def test_a_report_marks_disturbed_rows_and_has_a_mean_without_them() -> None:
    wide = [41e3, 52e3, 60e3, 80e3, 108e3]
    rows = [
        *(row("calm", rounds_us=[8.0] * 5), row("calm", engine="torch", rounds_us=[16.0] * 5)),
        *(row("busy", rounds_us=[8.0] * 5), row("busy", engine="torch", rounds_us=wide)),
    ]
    report = Report(run_of(rows, load=14.24))
    data = report.as_dict()
    assert data["disturbed"] == {"rows": 1, "timed": 4, "load": [14.24]}
    (pair,) = data["pairs"]
    assert (pair["rows"], pair["disturbed"], pair["geomean_steady"]) == (2, 1, 0.5)
    assert [one["disturbed"] for one in data["worst"]["times"]] == [True, False, False, False]
    assert "1 of 4 timed rows is disturbed" in page(report)
    calm = Report(run_of(rows[:2]))
    assert calm.as_dict()["disturbed"]["rows"] == 0
    assert "disturbed" not in page(calm)


def test_a_sweep_says_so_at_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("a", rounds_us=[41e3, 52e3, 60e3, 80e3, 108e3]), row("b", rounds_us=[8.0] * 5)]
    path = write_run(tmp_path / "run.jsonl", rows, load=14.24)
    conclude(Done(path=path, new=2, seconds=1.0), State())
    said = capsys.readouterr().out
    assert "1 of 2 timed rows is disturbed" in said
    assert "(load 14.24)" in said


WORK = WorkFacts(flops=2_000_000, bytes=60_000)
LIMITS = {"least_us": 40.0, "peak_tflops": 0.05, "peak_gbytes_per_s": 1.5}


def test_a_share_of_the_roofline_says_what_it_rests_on() -> None:
    found = with_share(WORK, facts([100.0] * 5, 99.0), LIMITS)
    assert (found.roofline, found.no_roofline) == (0.4, "")
    assert (found.peak_tflops, found.peak_gbytes_per_s) == (0.05, 1.5)
    assert found.tflops == pytest.approx(0.02)
    unknown = with_share(WORK, facts([100.0] * 5, 99.0), None)
    assert (unknown.roofline, unknown.peak_tflops) == (None, None)
    assert unknown.no_roofline == "the machine's limits are not known"


def test_a_share_far_above_one_is_none() -> None:
    """The limits were measured too low, by a busy machine; caches alone do not do that."""
    assert with_share(WORK, facts([28.0] * 5, 28.0), LIMITS).roofline == 1.429
    found = with_share(WORK, facts([10.0] * 5, 10.0), LIMITS)
    assert found.roofline is None
    assert found.no_roofline.startswith("the share would be 4, above 1.5")


def test_limits_are_the_best_of_several_tries() -> None:
    """On a busy machine calls go on until the fastest was nearly met again."""
    now = 0.0
    lengths = iter([*(0.01 * 0.93**k for k in range(30)), *[0.001] * 50])

    def call() -> None:
        nonlocal now
        now += next(lengths)

    assert peaks.best_of(call, clock=lambda: now) == pytest.approx(0.001)


def test_a_quiet_machine_is_measured_quickly() -> None:
    now, calls = 0.0, 0

    def call() -> None:
        nonlocal now, calls
        now, calls = now + 0.004, calls + 1

    assert peaks.best_of(call, clock=lambda: now) == pytest.approx(0.004)
    assert calls <= 7
