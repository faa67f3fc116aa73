# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Autotuning: what is measured, what counts, and what is remembered."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from here_and_now import choose, export, import_file, remember, tune
from here_and_now import known_times as winners
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import FormatError, NotSupportedError, SettingError
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.provider.engine import EngineKnob
from hipdnn_iree.provider.selection.autotune import variants
from hipdnn_iree.provider.selection.candidate import Candidate
from hipdnn_iree.provider.selection.engine_rules import read_rules
from hipdnn_iree.provider.selection.winner_entry import Entry
from hipdnn_iree.provider.timing import TUNING, Times, measure

pytestmark = pytest.mark.usefixtures("own_winners")


def product(name: str = "product") -> Graph:
    g = Graph(name, io_data_type="float")
    a, b = g.tensor(dims=(4, 8), name="a"), g.tensor(dims=(8, 2), name="b")
    g.output(g.matmul(a, b), name="c")
    return g


def quick(graph: Graph, *engines: str, **more: Any) -> Any:
    return tune(graph.freeze(), "cpu", engines=engines, budget_s=0.05, **more)


# ---------------------------------------------------------------------------- measuring


class Clock:
    """Time passes only in calls."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, *seconds: float) -> Callable[[], None]:
        rest = list(seconds)

        def call() -> None:
            self.now += rest.pop(0) if len(rest) > 1 else rest[0]

        return call


def timed(calls: list[Callable[[], None]], budget_s: float, clock: Clock) -> list[Times]:
    found = measure(calls, TUNING, budget_s=budget_s, clock=clock)
    return [Times.of(samples.rounds_us) for samples in found]


def test_the_median_is_not_moved_by_a_disturbance() -> None:
    clock = Clock()
    disturbed = clock.takes(1e-3, 1e-3, 0.5, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 0.2, 1e-3)
    calls = [disturbed, clock.takes(2e-3), clock.takes(1.0)]
    fast, slow, hopeless = timed(calls, 10.0, clock)
    assert fast.median == pytest.approx(1000)
    assert slow.median == pytest.approx(2000)
    assert slow.noise == pytest.approx(0, abs=1e-9)
    assert (hopeless.samples, hopeless.median) == (3, pytest.approx(1e6))
    assert slow.samples >= 7


def test_a_budget_of_time_is_kept() -> None:
    clock = Clock()
    found = timed([clock.takes(1.0), clock.takes(1.1)], 0.5, clock)
    assert [t.samples for t in found] == [3, 3]
    assert clock.now < 9


def test_nothing_is_given_up_for_one_disturbance() -> None:
    """As a first parallel call on a busy machine: 100 times what the calls after it take."""
    clock = Clock()
    stalled = clock.takes(0.6, 0.1, *[1e-3] * 1000)
    first, second = timed([stalled, clock.takes(3e-3)], 1.0, clock)
    assert first.samples >= 7
    assert first.median == pytest.approx(1000)
    assert second.median == pytest.approx(3000)


def test_what_disturbs_a_part_of_the_calls_is_left_out() -> None:
    clock = Clock()
    often = [2e-3 if k % 3 == 0 else 9e-3 for k in range(400)]
    disturbed, steady = timed([clock.takes(*often), clock.takes(3e-3)], 9, clock)
    assert disturbed.median == pytest.approx(2000)
    assert steady.median == pytest.approx(3000)


def test_one_sample_is_its_own_quartiles() -> None:
    assert Times.of([3]) == Times(low=3, median=3, high=3, best=3, samples=1)


# ---------------------------------------------------------------------------- candidates


def test_variants_are_all_combinations_the_defaults_first(install: Any) -> None:
    knobs = (
        install.FORM,
        EngineKnob(name="level", choices=("0", "1", "2"), default="2", help=".", tried=("2", "1")),
    )
    asked = Candidate.of(install.Engine(knobs=knobs), product().freeze(), tune_target())
    found = list(variants(asked))
    assert found == [{}, {"level": "1"}, {"form": "b"}, {"form": "b", "level": "1"}]
    fixed = asked.chosen_by("autotune", {"form": "b"})
    assert list(variants(fixed)) == [{"form": "b"}, {"form": "b", "level": "1"}]
    many = tuple(
        EngineKnob(name=f"k{i}", choices=("a", "b", "c"), default="a", help=".") for i in range(6)
    )
    asked = Candidate.of(install.Engine(knobs=many), product().freeze(), tune_target())
    assert len(list(variants(asked))) == 1 + 6 * 2


def tune_target() -> Any:
    from hipdnn_iree import Target

    return Target.parse("cpu")


def test_bad_candidates_are_rows_and_the_rest_goes_on(install: Any) -> None:
    def broken(knobs: Any) -> None:
        raise ZeroDivisionError("a bug\nof many lines")

    install(
        install.Engine("A_ENGINE", knobs=(install.FORM,), wrong="b"),
        install.Engine("B_ENGINE", spoil=install.crash),
        install.Engine("C_ENGINE", spoil=broken),
        install.Engine("D_ENGINE", serves=("conv_fprop",)),
    )
    told: list[tuple[int, int, str]] = []
    names = ("A_ENGINE", "B_ENGINE", "C_ENGINE", "D_ENGINE", "iree")
    found = quick(product(), *names, progress=lambda *step: told.append(step))
    rows = {(r.engine, tuple(r.knobs)): r for r in found.rows}
    good, wrong = rows["A_ENGINE", ()], rows["A_ENGINE", ("form",)]
    assert (good.status, wrong.status) == ("ok", "wrong")
    assert "1 of 8 elements wrong" in wrong.reason
    assert wrong.times is None
    assert rows["B_ENGINE", ()].reason.startswith("CompileError: the compiler died")
    assert rows["C_ENGINE", ()].reason == "ZeroDivisionError: a bug"
    declined = rows["D_ENGINE", ()]
    assert (declined.status, "[FAKE]" in declined.reason) == ("declined", True)
    same = [r for r in found.rows if r.status == "same"]
    assert all(r.engine == "IREE_JIT_ENGINE" for r in same)
    assert found.winner.engine == "IREE_JIT_ENGINE"  # NumPy in float64 is slower
    assert told[0][2] == "computing the reference"
    assert "measuring" in told[-1][2]
    json.dumps(found.as_dict())
    # What did not count is not remembered.
    assert {e.engine for e in winners().entries} == {"A_ENGINE", "IREE_JIT_ENGINE"}


def test_nothing_to_tune(install: Any) -> None:
    install(
        install.Engine("D_ENGINE", serves=("conv_fprop",)),
        install.Engine("B_ENGINE", spoil=install.crash),
    )
    with pytest.raises(NotSupportedError, match="no engine serves"):
        quick(product(), "D_ENGINE")
    with pytest.raises(SettingError, match="unknown engine"):
        quick(product(), "nobody")
    found = quick(product(), "B_ENGINE")
    assert (found.winner, found.stored) == (None, False)


# ---------------------------------------------------------------------------- remembering


def entry(engine: Any, us: float, graph: Graph | None = None, **knobs: str) -> Entry:
    asked = Candidate.of(engine, (graph or product()).freeze(), tune_target())
    return Entry.of(
        asked.chosen_by("autotune", knobs), (us * 0.99, us, us * 1.01), 9, estimated_us=0.0, model=0
    )


def test_winners_are_chosen_and_follow_upgrades(
    install: Any, own_winners: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = (
        install.Engine("A_ENGINE", knobs=(install.FORM,)),
        install.Engine("B_ENGINE", knobs=(install.FORM,)),
    )
    install(a, b)
    remember([entry(a, 20), entry(a, 10, form="b"), entry(b, 15)])
    found = choose(product("other name").freeze(), "cpu")
    assert (found.name, dict(found.choice), found.policy) == ("A_ENGINE", {"form": "b"}, "tuned")
    assert found.measured_us == 10
    plan = product().build("cpu")
    assert (plan.engine, plan.knobs, plan.policy) == ("A_ENGINE", {"form": "b"}, "tuned")
    # Knobs that the caller fixes narrow what was measured.
    found = choose(product().freeze(), "cpu", knobs={"form": "a"})
    assert (found.name, dict(found.choice)) == ("B_ENGINE", {"form": "a"})
    pinned = choose(product().freeze(), "cpu", engine_name="A_ENGINE", policy="tuned")
    assert (dict(pinned.choice), pinned.policy) == ({"form": "b"}, "pinned+tuned")
    assert dict(choose(product().freeze(), "cpu", engine_name="A_ENGINE").choice) == {}
    # Another shape is another graph.
    assert choose(wide().freeze(), "cpu").policy == "order"

    with caplog.at_level(logging.WARNING, logger="hipdnn_iree"):
        a.known = (replace(install.FORM, choices=("a", "c")),)  # the form is gone
        install(a, b, install.Engine("ANOTHER_TABLE"))
        assert choose(product().freeze(), "cpu").name == "B_ENGINE"
        b.release = "2"
        install(a, b, install.Engine("YET_ANOTHER_TABLE"))
        found = choose(product().freeze(), "cpu")
        assert (found.name, found.measured_us) == ("A_ENGINE", 20)
        install(b)
        assert choose(product().freeze(), "cpu").policy == "order"
    warnings = [r.message for r in caplog.records if "are skipped" in r.message]
    assert len(warnings) == 1
    assert "no such knobs any more" in warnings[0]


def wide() -> Graph:
    g = Graph(io_data_type="float")
    g.matmul(g.tensor(dims=(4, 8)), g.tensor(dims=(8, 3))).set_output()
    return g


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "damaged"),
        ("[]", "not one of measured times"),
        ('{"version": 99, "entries": []}', "version 99"),
        ('{"version": 1, "entries": [1, {}]}', "2 of 2 entries are damaged"),
        ("\udcff", "ignored"),
        ("[" * 100_000, "damaged"),
        ('{"version": 1, "entries": ' + "[" * 100_000, "damaged"),
        ('{"version": NaN, "entries": []}', "version nan"),
        ('{"version": ' + "9" * 5000 + ', "entries": []}', "damaged"),
        ('{"version": 1, "entries": {}}', "not one of measured times"),
    ],
)
def test_damaged_files_are_skipped_with_one_warning(
    text: str, word: str, own_winners: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own_winners.write_bytes(text.encode("utf-8", "surrogateescape"))
    with caplog.at_level(logging.WARNING, logger="hipdnn_iree"):
        for graph in (product(), wide(), product()):
            assert choose(graph.freeze(), "cpu").policy == "order"
    messages = [r.message for r in caplog.records]
    assert len(messages) == 1
    assert word in messages[0]
    damaged = own_winners.read_bytes()
    times = Entry.of(
        choose(product().freeze(), "cpu"), (1.0, 2.0, 3.0), 9, estimated_us=0.0, model=0
    )
    remember([times])  # nothing is lost of a file that a later version may have written
    assert own_winners.with_name(f"{own_winners.name}.old").read_bytes() == damaged
    assert len(json.loads(own_winners.read_text())["entries"]) == 1


def test_sound_entries_of_a_damaged_file_count(
    install: Any, own_winners: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a = install.Engine("A_ENGINE")
    install(a)
    remember([entry(a, 10)])
    data = json.loads(own_winners.read_text())
    good = data["entries"][0]
    bad = [
        {**good, "median_us": -1},
        {**good, "median_us": "10"},
        {**good, "knobs": {"form": 3}},
        {k: v for k, v in good.items() if k != "graph"},
        {**good, "median_us": True},
        {**good, "median_us": float("nan")},
        {**good, "median_us": float("inf")},
        {**good, "median_us": 10**400},
        {**good, "low_us": 11.0},
        {**good, "low_us": -1.0},
        {**good, "high_us": 9.0},
        {**good, "high_us": float("nan")},
        {**good, "estimated_us": float("inf")},
        {**good, "samples": 0},
        {**good, "name": "\ud800"},  # a rule of that name is one that hipDNN does not read
        {**good, "samples": 10**30},
        {**good, "engine_id": 2**63},
        {**good, "engine_id": 1.0},
        {**good, "rule": {"op": "matmul", "tensors": [["a", [1, 2]]]}},
        {**good, "rule": {"op": "matmul", "criteria": {"mode": 2**64}}},
        {**good, "rule": {"op": deep(300)}},
        None,
    ]
    data["entries"] = [*bad, {**good, "of": "the future"}]
    own_winners.write_text(json.dumps(data))
    with caplog.at_level(logging.WARNING, logger="hipdnn_iree"):
        for _ in range(2):
            assert choose(product().freeze(), "cpu").measured_us == 10
    (message,) = [r.message for r in caplog.records]
    assert f"{len(bad)} of {len(bad) + 1} entries are damaged" in message
    remember([entry(a, 20, wide())])  # what is damaged goes when the file is written again
    assert [e["median_us"] for e in json.loads(own_winners.read_text())["entries"]] == [10, 20]


def deep(levels: int) -> Any:
    return {"more": deep(levels - 1)} if levels else {}


def test_close_times_go_to_the_simplest(install: Any) -> None:
    a = install.Engine("A_ENGINE", knobs=(install.FORM,))
    install(a)
    remember([entry(a, 10.0, form="b"), entry(a, 10.1)])
    assert dict(choose(product().freeze(), "cpu").choice) == {}
    remember([entry(a, 10.0, form="b"), entry(a, 10.6)])
    assert dict(choose(product().freeze(), "cpu").choice) == {"form": "b"}


def with_high(one: Entry, high_us: float) -> Entry:
    return msgspec.structs.replace(one, high_us=high_us)


def test_a_tie_is_not_won_by_what_is_unsteady(install: Any) -> None:
    a, b = install.Engine("A_ENGINE"), install.Engine("B_ENGINE")
    install(a, b)
    remember([with_high(entry(a, 10.1), 17.0), with_high(entry(b, 10.0), 10.2)])
    assert choose(product().freeze(), "cpu").engine.NAME == "B_ENGINE"
    remember([with_high(entry(a, 10.1), 10.3), with_high(entry(b, 10.0), 10.2)])
    assert choose(product().freeze(), "cpu").engine.NAME == "A_ENGINE"


def test_an_engine_with_a_margin_has_to_win_by_it(install: Any) -> None:
    a, b = install.Engine("A_ENGINE"), install.Engine("B_ENGINE")
    a.MARGIN = 1.25
    install(a, b)
    remember([entry(a, 10.0), entry(b, 12.0)])
    assert choose(product().freeze(), "cpu").engine.NAME == "B_ENGINE"
    remember([entry(a, 10.0), entry(b, 13.0)])
    assert choose(product().freeze(), "cpu").engine.NAME == "A_ENGINE"


def test_measuring_again_replaces_an_engines_entries_only(install: Any) -> None:
    a, b = install.Engine("A_ENGINE", knobs=(install.FORM,)), install.Engine("B_ENGINE")
    install(a, b)
    remember([entry(a, 1, form="b"), entry(b, 2), entry(a, 3, wide())])
    remember([entry(a, 5)])
    found = {(e.engine, e.median_us) for e in winners().entries}
    assert found == {("A_ENGINE", 5), ("B_ENGINE", 2), ("A_ENGINE", 3)}


def test_autotune_as_a_policy(install: Any) -> None:
    a = install.Engine(
        "A_ENGINE", knobs=(install.FORM,), wrong="a"
    )  # only form b is right, but it is asked for
    a.wrong = "b"
    install(a)
    with scope(engine_deselect="iree"):
        plan = product().build("cpu", policy="autotune")
        assert (plan.engine, plan.knobs, plan.policy) == ("A_ENGINE", {}, "autotune")
        built = len(a.built)
        product().build("cpu", policy="autotune")
        assert len(a.built) == built + 1  # built, not measured again


def test_benchmark_as_a_policy(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each engine is built once, without knobs; no engine is split, and nothing large measured."""
    a, b = install.Engine("A_ENGINE", knobs=(install.FORM,)), install.Engine("B_ENGINE", wrong="*")
    install(a, b)
    monkeypatch.setattr("hipdnn_iree.provider.selection.tuned._BENCHMARK_FLOPS", 2 * 4 * 8 * 2)
    with scope(engine_deselect="iree,torch"):
        graph = product().freeze()
        found = choose(graph, "cpu", policy="benchmark")
        assert (found.name, dict(found.choice), found.policy) == ("A_ENGINE", {}, "benchmark")
        assert (a.built, len(b.built)) == ([{}], 1)
        assert {(e.engine, tuple(e.knobs)) for e in winners().entries} == {("A_ENGINE", ())}
        choose(product("again").freeze(), "cpu", policy="benchmark")
        assert choose(graph, "cpu").policy == "tuned"
        assert len(a.built) == 1
        with pytest.raises(NotSupportedError, match="no policy of benchmark chooses one"):
            choose(wide().freeze(), "cpu", policy="benchmark")
        assert choose(wide().freeze(), "cpu", policy="benchmark,order").policy == "order"
        assert len(a.built) == 1


def test_what_has_no_reference_is_not_measured() -> None:
    kind = "!torch.vtensor<[4],f32>"
    g = Graph("own", io_data_type="float")
    text = f"func.func @main(%x: {kind}) -> {kind} {{ return %x : {kind} }}"
    (y,) = g.custom_op(mlir=text, inputs=[g.tensor(dims=(4,))], outputs=[((4,), "float")])
    y.set_output()
    for policy in ("benchmark,order", "autotune,order"):
        assert choose(g.freeze(), "cpu", policy=policy).policy == "order"


def test_files_that_go_elsewhere(install: Any, tmp_path: Path, own_winners: Path) -> None:
    a = install.Engine("A_ENGINE", knobs=(install.FORM,))
    install(a)
    remember([entry(a, 20), entry(a, 10, form="b"), entry(a, 5, wide())])
    assert export(tmp_path / "all.json") == 3
    rules = tmp_path / "rules.json"
    assert export(rules, form="hipdnn") == 2
    found = read_rules(rules.read_text())
    assert {(r.op, r.engine_name, tuple(r.knobs.values())) for r in found.engine_overrides} == {
        ("matmul", "A_ENGINE", ("b",)),
        ("matmul", "A_ENGINE", ()),
    }
    with pytest.raises(SettingError, match="unknown form"):
        export(rules, form="xml")
    own_winners.unlink()
    with scope(engine_config=rules):  # hipDNN's policy picks what was tuned
        chosen = choose(product().freeze(), "cpu")
    assert (chosen.policy, dict(chosen.choice)) == ("config", {"form": "b"})
    assert choose(product().freeze(), "cpu").policy == "order"
    assert import_file(tmp_path / "all.json") == 3
    assert choose(product().freeze(), "cpu").measured_us == 10
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(FormatError):
        import_file(tmp_path / "bad.json")


_WRITER = """
import sys
from pathlib import Path
from hipdnn_iree.provider.selection.winner_entry import Entry
from hipdnn_iree.provider.selection.winners import remember
path, who = sys.argv[1:]
for i in range(20):
    one = Entry(graph=f"{who}{i}", target="cpu", machine="m", engine="E", engine_id=1,
                knobs={}, versions={}, median_us=1.0, low_us=1.0, high_us=1.0, samples=1)
    remember([one], Path(path))
"""


def test_processes_do_not_lose_each_others_entries(own_winners: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    words = [sys.executable, "-c", _WRITER, str(own_winners)]
    env = {**os.environ, "PYTHONPATH": str(root)}
    running = [subprocess.Popen([*words, who], env=env) for who in "ab"]
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    assert len({e.graph for e in winners().entries}) == 40
    assert [p.name for p in own_winners.parent.iterdir()] == ["winners.json"]


@pytest.mark.parametrize("name", ["winners.json", "winners.json.lock"])
def test_a_pipe_in_place_of_a_file_makes_nobody_wait(
    name: str, install: Any, own_winners: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(own_winners.with_name(name))
    one = entry(install.Engine(), 1)
    remember([one])
    taken = name != "winners.json"  # without its lock the file is written all the same
    assert winners().entries == ((one,) if taken else ())
    assert bool([r for r in caplog.records if "no regular file" in r.getMessage()]) != taken
    assert stat.S_ISFIFO(own_winners.with_name(name).stat().st_mode)


@pytest.mark.parametrize("name", ["winners.json", "winners.json.lock"])
def test_a_link_in_place_of_a_file(name: str, install: Any, own_winners: Path) -> None:
    """The file may be a link of its user; a lock is none, and nothing is made where it leads."""
    target = own_winners.with_name("elsewhere")
    own_winners.with_name(name).symlink_to(target)
    one = entry(install.Engine(), 1)
    remember([one])
    assert winners().entries == (one,)
    assert target.exists() == (name == "winners.json")


def test_a_folder_that_takes_no_file_is_one_warning(
    install: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with (
        scope(engine_winners=tmp_path / "file" / "winners.json"),
        caplog.at_level(logging.WARNING, logger="hipdnn_iree"),
    ):
        remember([entry(install.Engine(), 1)])
    assert "cannot be stored" in caplog.text
