# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The guard notices what it is for, and some problems are as its committed record says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

# Of each op with strategies one problem, and one that is declined for gfx9.
SOME = (
    *(
        "matmul.primes half",
        "conv_fprop.nhwc half",
        "conv_dgrad.1x1_stride2_padded float",
        "sdpa.causal half",
    ),
    *("moe_grouped_matmul.gather float", "reduction.add_all float", "random 7", "random 8"),
    *("size.layernorm.1000 half", "dynamic.mlp float", "dynamic.mlp float other0"),
)


@pytest.fixture(scope="module")
def guard(checkout: Path) -> Iterator[Any]:
    """The tool as a module; what it imports is its own."""
    sys.path.insert(0, str(checkout / "tools" / "guard"))
    try:
        yield import_module("record")
    finally:
        sys.path.pop(0)
        for name in ("record", "adapter", "graphs"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def now(guard: Any) -> Any:
    found, every = guard.Record(), import_module("adapter").problems()
    for name in SOME:
        guard.record_one(name, every[name], found)
    return found


def whats(guard: Any, before: Any, after: Any) -> set[tuple[str, str]]:
    return {(d.what, d.problem) for d in guard.compare(before, after, SOME)}


def test_problems_are_as_recorded(guard: Any, now: Any) -> None:
    before = guard.read(guard.BASELINE.read_text(encoding="utf-8"))
    found = list(guard.compare(before, now, SOME))
    assert not found, guard.report(found, len(SOME), 0, 10)
    # What is looked at has strategies, declines, and no exception.
    assert any(s.declines != "-" for e in now.problems.values() for s in e.targets.values())
    codes = [
        c for e in now.problems.values() for s in e.targets.values() for c in s.variants.values()
    ]
    assert len(codes) > 5 * len(SOME)
    assert not [c for c in codes if c.mlir.startswith("!")]


def test_a_record_is_read_as_it_was_written(guard: Any, now: Any) -> None:
    again = guard.read(guard.write(now))
    assert again == now
    assert guard.write(again) == guard.write(now)


def test_new_problems_are_added_and_nothing_else_changes(guard: Any, now: Any) -> None:
    whole, name = guard.read(guard.write(now)), "matmul.primes half"
    del whole.problems[name]
    more = guard.Record()
    guard.record_one(name, import_module("adapter").problems()[name], more)
    guard.merge(whole, more)
    assert whole == now


def test_changes_are_noticed(guard: Any, now: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter, name = import_module("adapter"), "matmul.primes half"
    lower, problem = adapter.lower, adapter.problems()[name]

    def changed(**parts: Any) -> set[tuple[str, str]]:
        after = guard.read(guard.write(now))
        monkeypatch.setattr(
            adapter,
            "lower",
            lambda *a: replace(
                found := lower(*a),
                **{part: change(getattr(found, part)) for part, change in parts.items()},
            ),
        )
        guard.record_one(name, problem, after)
        monkeypatch.undo()
        return whats(guard, now, after)

    assert changed() == set()
    assert changed(flags=lambda f: (*f, "--iree-more")) == {("flags", name)}
    assert changed(flags=lambda f: f[::-1]) == {("flags", name)}
    assert changed(mlir=lambda text: text + " ") == {("mlir", name)}
    assert changed(error=lambda _: "KeyError") == {("mlir", name)}
    assert changed(key=lambda key: {**key, "new": "1"}) == {("key", name)}


def test_declines_strategies_and_graphs_are_compared(
    guard: Any, now: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, name = import_module("adapter"), "dynamic.mlp float"
    problem, declines = adapter.problems()[name], adapter.declines

    def changed(owner: Any, attribute: str, value: Any) -> set[tuple[str, str]]:
        after = guard.read(guard.write(now))
        monkeypatch.setattr(owner, attribute, value)
        guard.record_one(name, problem, after)
        monkeypatch.undo()
        return whats(guard, now, after)

    def other(position: int) -> Any:
        return lambda *a: [(*d[:position], "else", *d[position + 1 :]) for d in declines(*a)]

    for position in range(3):  # rule, node, port
        assert changed(adapter, "declines", other(position)) == {("declines", name)}
    assert changed(adapter, "declines", other(3)) == {("texts", name)}
    assert changed(adapter, "offered", lambda *_: {"matmul": (("a", "b"), "a", ())}) == {
        ("offers", name)
    }
    more = [adapter.Variant(), adapter.Variant("matmul=b", (("matmul", "b"),))]
    assert changed(adapter, "variants", lambda *_: more) == {("variants", name)}
    assert changed(adapter, "digest", lambda _: "0" * 64) == {("graph", name)}
    missing = guard.read(guard.write(now))
    del missing.problems[name]
    assert whats(guard, now, missing) == {("missing", name)}


def test_what_is_renamed_keeps_its_name_in_the_record(
    guard: Any, now: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, name = import_module("adapter"), "matmul.primes half"
    choices = adapter.choices
    before = {"plain": "as_it_comes"}

    def renamed(graph: Any, target: Any) -> Any:
        return {
            op: c._replace(names=tuple(before.get(n, n) for n in c.names))
            for op, c in choices(graph, target).items()
        }

    monkeypatch.setattr(adapter, "choices", renamed)
    graph = adapter.problems()[name]()
    assert "as_it_comes" in adapter.offered(graph, "cpu")["matmul"][0]
    monkeypatch.setitem(adapter.STRATEGY_NAMES, "matmul", before)
    assert "plain" in adapter.offered(graph, "cpu")["matmul"][0]
    variant = next(v for v in adapter.variants(graph, "cpu", name) if v.name == "matmul=plain")
    assert variant.strategies == (("matmul", "as_it_comes"),)
