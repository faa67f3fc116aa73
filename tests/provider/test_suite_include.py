# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Problems of other suites: how some are drawn, which are small enough, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import FormatError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.work import graph_work
from hipdnn_iree.provider.sweep import included
from hipdnn_iree.provider.sweep.suite import Case, Suite, read

PART = """
dtypes: [float, half]
cases:
  - {name: a, for: {m: {from: 1, to: 10}}, op: matmul, a: [m, m], b: [m, m]}
  - {name: z, op: relu, x: [5]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.yaml").write_text(f"name: one{PART}", encoding="utf-8")
    (tmp_path / "two.yaml").write_text(f"name: two{PART}", encoding="utf-8")
    return tmp_path


def names(suite: Suite) -> list[str]:
    return [case.name for case in suite.by_type()]


def drawn(folder: Path, more: str, seed: int | None = None) -> list[str]:
    return names(read(f"include: [{{suites: '*.yaml', {more}}}]", folder=folder, seed=seed))


def test_problems_are_drawn_of_each_file(folder: Path) -> None:
    everything = names(read("include: ['*.yaml']", folder=folder))
    assert len(everything) == 44
    some = drawn(folder, "random: {count: 7, seed: 1}")
    assert [name for name in everything if name in some] == some
    assert sum(name.startswith("one.") for name in some) == 7 == len(some) / 2
    assert drawn(folder, "random: {count: 7, seed: 2}") != some
    assert drawn(folder, "random: 7", seed=1) == some
    assert drawn(folder, "random: 99") == everything


def test_graphs_are_built_once_and_of_no_more_than_are_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    whole = Case.freeze

    def freeze(case: Case, data_type: DataType | None = None) -> FrozenGraph:
        built.append(f"{case.name} {data_type}")
        return whole(case, data_type)

    monkeypatch.setattr(Case, "freeze", freeze)
    for more, most in {
        "random: 7": 14,
        "random: 7, where: flops > 0": 14,
        "where: op == 'relu'": 44,
        "random: 3, where: op == 'relu'": 44,
    }.items():
        built.clear()
        assert drawn(folder, more)
        assert 0 < len(built) <= most, more


def test_what_is_wrong_with_a_problem_is_told_when_it_is_drawn(folder: Path) -> None:
    (folder / "bad.yaml").write_text(
        f"name: bad{PART}  - {{name: bad, op: matmul, a: [2, 3], b: [4, 5]}}", encoding="utf-8"
    )
    text = "include: [{{suites: bad.yaml, random: {{count: 5, seed: {}}}}}]"
    some = {seed: text.format(seed) for seed in range(40)}
    kept = {seed: read(text, folder=folder, check="keep") for seed, text in some.items()}
    bad = {seed for seed, suite in kept.items() if any(case.broken for case in suite.by_type())}
    assert 0 < len(bad) < 40
    for seed, text in some.items():
        if seed not in bad:
            assert len(names(read(text, folder=folder))) == 5
            continue
        with pytest.raises(FormatError) as info:
            read(text, folder=folder)
        (problem,) = {p.rule: p for p in info.value.problems}.values()
        assert problem.node in {"bad.bad half.matmul_0", "bad.bad float.matmul_0"}
        assert "line " in problem.hint


def test_a_problem_that_is_added_takes_the_place_of_one(folder: Path) -> None:
    before = set(drawn(folder, "random: 7"))
    with (folder / "one.yaml").open("a", encoding="utf-8") as file:
        file.write("  - {name: more, dtypes: half, op: gelu, x: [6]}\n")
    after = set(drawn(folder, "random: 7"))
    assert len(before - after) <= 1


def test_what_holds_for_the_problems(folder: Path) -> None:
    text = "include: {suites: one.yaml, where: [flops <= 250, dtype == 'half', op != 'relu']}"
    with pytest.raises(FormatError, match="include"):  # a list, as there may be several
        read(text, folder=folder)
    found = read(text.replace("{", "[{").replace("}", "}]"), folder=folder)
    assert names(found) == [f"one.a_m{m} half" for m in range(1, 6)]
    assert max(graph_work(case.freeze()).flops for case in found.cases) == 250
    assert len(drawn(folder, "where: bytes < 100, random: 3")) == 6


def test_a_broken_problem_is_not_left_out(tmp_path: Path) -> None:
    text = "cases: [{name: b, op: matmul, a: [2, 3], b: [4, 5]}, {name: c, op: relu, x: [9]}]"
    (tmp_path / "part.yaml").write_text(text, encoding="utf-8")
    found = read("include: [{suites: part.yaml, where: flops < 5}]", folder=tmp_path, check="keep")
    assert [(case.name, bool(case.broken)) for case in found.cases] == [("b", True)]


@pytest.mark.parametrize(
    ("more", "rule", "text"),
    [
        ("where: flop < 1", "INCLUDE-01", "did you mean flops"),
        ("where: flops <", "INCLUDE-01", "is no expression"),
        ("where: dtype < 3", "INCLUDE-01", "not supported"),
        ("random: 0", "BENCH-01", "include"),
        ("random: {count: 3, sead: 1}", "BENCH-01", "sead"),
        ("wher: flops < 1", "BENCH-01", "wher"),
    ],
)
def test_mistakes(folder: Path, more: str, rule: str, text: str) -> None:
    with pytest.raises(FormatError, match=text) as caught:
        drawn(folder, more)
    assert {p.rule for p in caught.value.problems} == {rule}
    assert "INCLUDE-01" in included.RULES
