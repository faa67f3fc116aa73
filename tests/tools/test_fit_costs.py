# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Estimates fitted to times: the table of the source is what the committed rows give."""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from hipdnn_iree.jit.cpu_machine import cpu_machine
from hipdnn_iree.jit.ops.conv_rates import Rates, nanoseconds
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.sweep.run_file import RunFile
from sweep_runs import header, row

from tools.calibration.fit_costs import Row, fitted, judged, main, nonnegative, rows_of, told

MEASURED = Path(__file__).parent.parent / "data" / "strategies"
CPUS = ("znver5", "znver3", "sapphirerapids")


def rows_of_cpu(cpu: str) -> list[Row]:
    """Return what was measured on a CPU."""
    lines = (MEASURED / f"conv_fprop_{cpu}.jsonl").read_text().splitlines()
    target = Target.parse(f"cpu:{cpu}")
    return [Row.of(json.loads(line), target) for line in lines]


def rates_of(cpu: str) -> Rates:
    return nanoseconds(cpu_machine(Target.parse(f"cpu:{cpu}")))


@pytest.mark.parametrize("seed", range(5))
def test_nonnegative_least_squares(seed: int) -> None:
    """Against the conditions of Karush, Kuhn and Tucker, which one solution has."""
    rng = np.random.default_rng(seed)
    a, b = rng.random((40, 6)) * 10.0 ** rng.integers(-3, 6, 6), rng.standard_normal(40)
    x = nonnegative(a, b)
    slope = a.T @ (a @ x - b) / np.linalg.norm(a, axis=0)
    assert (x >= 0).all()
    assert (slope > -1e-5).all()
    assert np.abs(slope[x > 0]).max(initial=0) < 1e-5


def test_a_quantity_that_is_never_there_costs_nothing() -> None:
    found = nonnegative(np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([3.0, 6.0]))
    assert found == pytest.approx([3, 0])


@pytest.mark.parametrize("cpu", CPUS)
def test_times_that_follow_the_table_give_it_back(cpu: str) -> None:
    known = rates_of(cpu)
    exact = [
        replace(row, times={name: ns / 2e3 for name, ns in row.estimates(known).items()})
        for row in rows_of_cpu(cpu)
        if row.last and not row.narrow
    ]
    key = ("row_im2col", True, False)
    again = fitted(exact, known, 2.0)[key]
    for what, ns in known[key].items():
        assert abs(log(again[what] / ns)) < 0.1, what
    assert max(regret for regret, _ in judged(exact, known)) == 1


@pytest.mark.parametrize("cpu", CPUS)
def test_the_table_is_near_what_the_rows_give(cpu: str) -> None:
    found = judged(rows_of_cpu(cpu), rates_of(cpu))
    regret = [r for r, _ in found]
    mean = exp(fmean(map(log, regret)))
    assert 1 < mean < 1.2
    assert told(found).startswith(f"regret {mean:.3f}")
    assert min(regret) == 1


def swept(path: Path, op: str, strategies: dict[str, float | None], *, case: str = "c") -> Path:
    """Write a run of one case, whose default strategy is the first one."""
    first = next(iter(strategies))
    rows = [row(case, engine="torch", rounds_us=[12.34])]
    for name, us in strategies.items():
        engine = "iree" if name == first else f"iree+{op}.strategy={name}"
        knobs = {f"{op}.strategy": name}
        rows.append(row(case, engine=engine, rounds_us=[us] if us else [], knobs=knobs))
    with RunFile(path, header()) as run:
        run.append(*rows)
    return path


def test_rows_of_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = tmp_path / "few.yaml"
    suite.write_text(
        "title: few\ncases:\n  - {name: c, op: conv_fprop, x: [1, 4, 8, 8], w: [6, 4, 3, 3], "
        "padding: 1, stride: 2, layout: channels_last}\n"
    )
    strategies = {"direct": 12.34, "blocked": None}
    run = swept(tmp_path / "run.jsonl", "conv_fprop", strategies)
    (line,) = rows_of(run, str(suite))
    assert line["us"] == {"torch": 12.3, "direct": 12.3}
    assert (line["x"], line["w"], line["last"]) == ((1, 4, 8, 8), (6, 4, 3, 3), True)
    assert main(["--run", str(run), "--suite", str(suite)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(line))


def test_rows_of_a_sweep_with_a_seed(tmp_path: Path) -> None:
    """Each seed draws other dims under the same names."""
    suite = tmp_path / "few.yaml"
    suite.write_text(
        "title: few\ncases:\n  - {name: c, random: {count: 1, seed: 1}, op: conv_fprop, "
        "for: {n: {from: 8, to: 4000}}, x: [1, 4, n, 8], w: [6, 4, 3, 3]}\n"
    )
    run = swept(tmp_path / "run.jsonl", "conv_fprop", {"direct": 12.34}, case="c_000")
    first, second = (next(rows_of(run, str(suite), seed))["x"][2] for seed in (5, 6))
    assert first != second
    assert first == next(rows_of(run, str(suite), 5))["x"][2]


@pytest.mark.parametrize(
    ("op", "given", "strategy", "estimated"),
    [
        ("conv_wgrad", "x: [1, 4, 8, 8], dw: {dims: [6, 4, 3, 3]}, dw_dims: [6, 4, 3, 3]",
         "blocked", "blocked"),
        ("conv_dgrad", "w: [6, 4, 3, 3], dx: {dims: [1, 4, 8, 8]}, dx_dims: [1, 4, 8, 8]",
         "gemm_col2im", "gemm_col2im"),
        ("conv_dgrad", "w: [6, 4, 2, 2], dx: {dims: [1, 4, 6, 6]}, dx_dims: [1, 4, 6, 6]",
         "flipped", "patches"),
    ],
)  # fmt: skip
def test_rows_of_gradients(
    tmp_path: Path, op: str, given: str, strategy: str, estimated: str
) -> None:
    suite = tmp_path / "few.yaml"
    suite.write_text(
        f"title: few\ncases:\n  - {{name: c, op: {op}, dy: [1, 6, 4, 4], {given}, padding: 1, "
        "stride: 2}\n"
    )
    (line,) = rows_of(swept(tmp_path / "run.jsonl", op, {strategy: 12.34}), str(suite))
    assert line["dy"] == (1, 6, 4, 4)
    assert line["w"][:2] == (6, 4)
    found = Row.of(line, Target.parse("cpu:znver5"))
    assert (found.op, found.times, list(found.found)) == (op, {estimated: 12.3}, [estimated])


def test_rows_of_attention(tmp_path: Path) -> None:
    suite = tmp_path / "few.yaml"
    suite.write_text(
        "title: few\ncases:\n  - {name: c, op: sdpa, q: [2, 8, 3, 64], k: [2, 2, 77, 64], "
        "v: [2, 2, 77, 32]}\n"
    )
    times = {"composite": 12.34, "blocked": 5.67}
    (line,) = rows_of(swept(tmp_path / "run.jsonl", "sdpa", times), str(suite))
    assert (line["q"], line["k"], line["v"]) == ((2, 8, 3, 64), (2, 2, 77, 64), (2, 2, 77, 32))
    found = Row.of(line, Target.parse("cpu:znver3"))
    assert (found.op, found.narrow, [*found.found]) == ("sdpa", False, ["composite", "blocked"])
    assert found.found["composite"]["read"] == 4 * 77 * (64 + 32)
    narrow = Row.of(line | {"type": "bfloat16"}, Target.parse("cpu:znver3"))
    assert narrow.narrow  # though it is multiplied in float32 there


@pytest.mark.parametrize("argv", [[], ["--run", "x.jsonl"]])
def test_what_is_missing_is_told(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(argv)
    assert "no files of rows" in (told := capsys.readouterr().err) or "--suite" in told
