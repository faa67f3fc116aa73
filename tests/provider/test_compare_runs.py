# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is told as a regression, and what is noise: inside a run, between runs, of a machine."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

import pytest
from hipdnn_iree.provider.sweep.compare_runs import (
    Comparison,
    compare_runs,
    regressed,
    yardstick,
)
from hipdnn_iree.provider.sweep.row import Row, Run
from sweep_runs import quiet, row, run_of, timed_rows

CASES = {f"case{i}": 20.0 * 1.11**i for i in range(80)}
SLOWED = "case7|float|iree|cpu"


def calm(draw: random.Random) -> float:
    """A round that nothing interrupts."""
    return 1 + 0.01 * draw.expovariate(1)


def busy(draw: random.Random) -> float:
    """A round on a machine that does other things too."""
    return 1 + 0.1 * draw.expovariate(1) + 4 * (draw.random() < 0.1)


def verdicts(found: Comparison) -> dict[str, str]:
    return {key: change.verdict for key, change in found.by_key.items() if change.verdict != "same"}


def compared(after: Sequence[Row], *before: Sequence[Row]) -> dict[str, str]:
    return verdicts(compare_runs(run_of(after), [run_of(rows) for rows in before]))


@pytest.mark.parametrize("engines", [("iree", "torch"), ("iree",)])
def test_two_runs_of_one_tree_do_not_differ(engines: tuple[str, ...]) -> None:
    runs = [timed_rows(CASES, seed, engines=engines) for seed in range(21)]
    for before, after in itertools.pairwise(runs):
        assert compared(after, before) == {}


def test_a_kernel_slowed_by_a_tenth_is_told() -> None:
    # As far as it can be: 7 % of 10 stand out of a scatter of 1.4.
    before, told = timed_rows(CASES, 0), 0
    for seed in range(1, 11):
        after = timed_rows(CASES, seed, slower={SLOWED: 1.1})
        found = compared(after, before)
        told += found == {SLOWED: "slower"}
        assert set(found) <= {SLOWED}
    assert told >= 9
    assert compared(before, after) == {SLOWED: "faster"}


def test_busy_rounds_tell_nothing_and_half_as_much_again_is_told() -> None:
    before = timed_rows(CASES, 0, inside=busy, rounds=20)
    told = 0
    for seed in range(1, 6):
        after = timed_rows(CASES, seed, inside=busy, rounds=20)
        assert compared(after, before) == {}
        after = timed_rows(CASES, seed, inside=busy, rounds=20, slower={SLOWED: 1.5})
        found = compared(after, before)
        told += found == {SLOWED: "slower"}
        assert set(found) <= {SLOWED}
    assert told >= 4


def test_what_scatters_between_runs_is_not_told_and_what_stands_out_is() -> None:
    scattered = {"between": 0.06, "engines": ("iree",)}
    before = timed_rows(CASES, 0, **scattered)  # type: ignore[arg-type]
    after = timed_rows(CASES, 1, slower={SLOWED: 2.0}, **scattered)  # type: ignore[arg-type]
    found = compare_runs(run_of(after), [run_of(before)])
    assert verdicts(found) == {SLOWED: "slower"}
    scatter = found.scatters["iree|cpu"]
    assert scatter.rows == 80
    assert scatter.scatter == pytest.approx(0.06 * 2**0.5, rel=0.35)
    assert 1.2 < scatter.threshold <= 1.5


def test_a_machine_that_is_slower_for_a_while_is_no_regression() -> None:
    before = timed_rows(CASES, 0)
    # Not with a yardstick, by whatever factor, and not without one within the tolerance.
    assert compared(timed_rows(CASES, 1, shift=1.6), before) == {}
    after = timed_rows(CASES, 1, shift=1.6, slower={SLOWED: 1.3})
    assert compared(after, before) == {SLOWED: "slower"}
    alone = [one for one in before if one.engine == "iree"]
    assert compared(timed_rows(CASES, 1, shift=1.04, engines=("iree",)), alone) == {}
    found = compared(timed_rows(CASES, 1, shift=1.2, engines=("iree",)), alone)
    assert set(found.values()) == {"slower"}
    assert len(found) > 0.9 * len(CASES)


def test_an_engine_that_is_slower_as_a_whole_is_told() -> None:
    slower = {f"{case}|float|iree|cpu": 1.2 for case in CASES}
    found = compared(timed_rows(CASES, 1, slower=slower), timed_rows(CASES, 0))
    assert set(found) <= set(slower)
    assert set(found.values()) == {"slower"}
    assert len(found) > 0.9 * len(CASES)


def test_a_yardstick_that_is_faster_is_no_regression() -> None:
    torch = {f"{case}|float|torch|cpu": 0.7 for case in CASES}
    found = compared(timed_rows(CASES, 1, slower=torch), timed_rows(CASES, 0))
    assert set(found) <= set(torch)
    assert set(found.values()) == {"faster"}
    assert len(found) > 0.9 * len(CASES)


def test_other_machines_are_compared_by_ratios() -> None:
    before = run_of(timed_rows(CASES, 0))
    after = run_of(timed_rows(CASES, 1, shift=0.5, slower={SLOWED: 1.4}), cpu="two")
    found = compare_runs(after, [before])
    assert not found.alike
    assert verdicts(found) == {SLOWED: "slower"}
    assert list(found.scatters) == ["iree|cpu|by torch"]
    told = found.by_key[SLOWED].told
    assert told is not None
    assert told.ratio == pytest.approx(1.4, rel=0.1)
    # Insisting, everything is faster, as it is.
    absolute = compare_runs(after, [before], absolute=True)
    assert verdicts(absolute)["case8|float|torch|cpu"] == "faster"


BEFORE, BUSY = [10.0, 10.1, 10.2, 10.1], [20.0, 21.0, 22.0, 20.5]


@pytest.mark.parametrize(
    ("rounds", "told"),
    [
        ([*BUSY, *BEFORE, *BUSY], "same"),  # a neighbour, for two of three times
        ([*BUSY, *BUSY, *BEFORE], "same"),
        ([*BUSY, *BUSY, *BUSY], "slower"),
    ],
)
def test_what_is_slower_at_some_times_only_is_none(rounds: list[float], told: str) -> None:
    before = [row("a", rounds_us=3 * BEFORE, visits=[4, 4, 4])]
    after = [row("a", rounds_us=rounds, visits=[4, 4, 4])]
    for faster, one, other in (("slower", after, before), ("faster", before, after)):
        expected = {"a|float|iree|cpu": faster} if told != "same" else {}
        assert compared(one, other) == expected
    # Without the times that it was timed at, the rounds alone would tell it.
    assert compared([row("a", rounds_us=rounds)], [row("a", rounds_us=3 * BEFORE)])


def restless(seed: int, unrest: float, slower: float = 1.0) -> list[Row]:
    """Return rows whose visits differ, as on a machine that others use for some seconds."""
    draw, found = random.Random(seed), []
    for i, (case, median_us) in enumerate(CASES.items()):
        factors = [draw.lognormvariate(0, unrest) for _ in range(3)]
        factors = [f * (slower if i % 3 == 0 else 1.0) for f in factors]
        rounds = [median_us * f * quiet(draw) for f in factors for _ in range(5)]
        found.append(row(case, rounds_us=rounds, visits=[5, 5, 5]))
    return found


def test_rows_that_differ_from_themselves_are_not_told() -> None:
    runs = [restless(seed, 0.25) for seed in range(12)]
    for before, after in itertools.permutations(runs, 2):
        assert compared(after, before) == {}
    found = compare_runs(run_of(runs[1]), [run_of(runs[0])]).scatters["iree|cpu"]
    assert found.unrest == pytest.approx(0.25, rel=0.2)
    assert found.threshold > 1.8


def test_many_rows_that_are_slower_on_a_calm_machine_are_told() -> None:
    """They scatter as widely, but differ little from themselves."""
    found = compare_runs(run_of(restless(1, 0.01, slower=1.8)), [run_of(restless(0, 0.01))])
    assert set(verdicts(found).values()) == {"slower"}
    assert len(verdicts(found)) == len(range(0, len(CASES), 3))
    assert found.scatters["iree|cpu"].scatter > 0.2
    assert found.scatters["iree|cpu"].threshold == pytest.approx(1.5)


def with_short_ones(seed: int, slowed: Mapping[str, float]) -> list[Row]:
    """Return rows as of a GPU: short kernels wait for their host, long ones do not."""
    draw, found = random.Random(seed), []
    for i in range(60):
        case, median_us = f"case{i}", 20.0 if i < 30 else 200.0 + 40 * i
        factors = [draw.lognormvariate(0, 0.08 if i < 30 else 0.008) for _ in range(3)]
        held = draw.lognormvariate(0, 0.03 if i < 30 else 0.006) * slowed.get(case, 1.0)
        rounds = [median_us * f * held * quiet(draw) for f in factors for _ in range(5)]
        found.append(row(case, rounds_us=rounds, visits=[5, 5, 5]))
    return found


def test_what_is_told_of_a_row_depends_on_how_much_rows_of_its_time_differ() -> None:
    runs = [with_short_ones(seed, {}) for seed in range(3)]
    for before, after in itertools.permutations(runs, 2):
        assert compared(after, before) == {}
    long, short = "case50|float|iree|cpu", "case5|float|iree|cpu"
    for before in runs:
        found = compare_runs(
            run_of(with_short_ones(9, {"case50": 1.1, "case5": 1.1})), [run_of(before)]
        )
        assert verdicts(found) == {long: "slower"}
        scatter = found.scatters["iree|cpu"]
        assert scatter.threshold < 1.1
        assert scatter.highest > 1.2
        both = run_of(with_short_ones(9, {"case50": 1.1, "case5": 2.5}))
        assert verdicts(compare_runs(both, [run_of(before)])) == {long: "slower", short: "slower"}


@pytest.mark.parametrize(("factors", "told"), [((1.03, 1.7, 1.2), False), ((1.5, 1.7, 1.6), True)])
def test_a_row_that_differs_more_from_itself_than_from_the_other_run_is_none(
    factors: tuple[float, ...], told: bool
) -> None:
    """As of a kernel whose times were 51, 51 and 52 in one run, and 53, 91 and 64 in another."""
    before = [row("a", rounds_us=3 * BEFORE, visits=[4, 4, 4])]
    rounds = [factor * us for factor in factors for us in BEFORE]
    after = [row("a", rounds_us=rounds, visits=[4, 4, 4])]
    assert bool(compared(after, before)) == told
    assert bool(compared(before, after)) == told


def test_a_run_of_one_visit_is_one_of_its_rounds() -> None:
    before = [row("a", rounds_us=3 * BEFORE)]
    assert compared([row("a", rounds_us=3 * BUSY, visits=[4, 4, 4])], before)
    mixed = [row("a", rounds_us=[*BUSY, *BEFORE, *BUSY], visits=[4, 4, 4])]
    assert compared(mixed, before) == {}


def test_several_baselines_must_agree() -> None:
    first, odd = timed_rows(CASES, 0), timed_rows(CASES, 1, slower={SLOWED: 1.3})
    after = timed_rows(CASES, 2, slower={SLOWED: 1.3, "case9|float|iree|cpu": 1.3})
    assert set(compared(after, first)) == {SLOWED, "case9|float|iree|cpu"}
    assert compared(after, first, odd) == {"case9|float|iree|cpu": "slower"}


def test_few_rows_are_compared_by_their_rounds_alone() -> None:
    few = {"a": 50.0, "b": 70.0}
    how = {"engines": ("iree",), "rounds": 5, "inside": calm}
    before = timed_rows(few, 0, **how)  # type: ignore[arg-type]
    after = timed_rows(few, 1, slower={"b|float|iree|cpu": 1.3}, **how)  # type: ignore[arg-type]
    assert compared(after, before) == {"b|float|iree|cpu": "slower"}


def statuses(**by_case: str) -> Run:
    return run_of(row(case, status=status) for case, status in by_case.items())  # type: ignore[arg-type]


def test_what_became_of_cases() -> None:
    before = statuses(kept="ok", broke="ok", mended="wrong", gone="ok", still="declined")
    after = statuses(kept="ok", broke="crash", mended="ok", still="declined", new="wrong")
    found = {key.partition("|")[0]: c for key, c in compare_runs(after, [before]).by_key.items()}
    assert {case: change.verdict for case, change in found.items()} == {
        "kept": "same",
        "broke": "crash",
        "mended": "ok",
        "gone": "gone",
        "still": "same",
        "new": "new",
    }
    kinds = ["wrong", "crash", "gone", "declined"]
    assert {case for case, change in found.items() if regressed(change, kinds)} == {
        "broke",
        "gone",
        "new",  # it is wrong, and nobody knew it
    }
    assert not regressed(found["mended"], kinds)


def test_another_graph_of_the_same_name_is_not_compared() -> None:
    before, after = timed_rows(CASES, 0), timed_rows(CASES, 1, slower={SLOWED: 3.0})
    for one in after:
        if one.key == SLOWED:
            one.digest = "another"
    assert compared(after, before) == {SLOWED: "another graph"}


def test_times_that_are_none() -> None:
    before = run_of([row("a", rounds_us=[1.0] * 5), row("b"), row("c", rounds_us=[0.0, 0.0])])
    after = run_of([row("a"), row("b", rounds_us=[1.0] * 5), row("c", rounds_us=[1.0] * 5)])
    found = compare_runs(after, [before])
    assert {key[0]: change.verdict for key, change in found.by_key.items()} == {
        "a": "gone",
        "b": "new",
        "c": "new",
    }


def test_who_is_the_yardstick() -> None:
    assert yardstick(["iree", "torch", "hipdnn"], "iree") == "torch"
    assert yardstick(["iree", "torch", "hipdnn"], "hipdnn") == "torch"
    assert yardstick(["iree", "torch"], "torch") is None
    assert yardstick(["iree", "iree-plain"], "iree") == "iree-plain"
    assert yardstick(["iree"], "iree") is None


def test_rounds_of_the_noise_model() -> None:
    """As measured on an idle machine: half of the range of the middle half is about 1 %."""
    draw = random.Random(1)
    values = sorted(quiet(draw) for _ in range(1000))
    assert 0.001 < (values[750] - values[250]) / 2 / values[500] < 0.03
