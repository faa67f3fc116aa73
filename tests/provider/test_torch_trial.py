# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's functions or an engine's code: what is left to which, with made-up times."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.provider.timing import Samples
from hipdnn_iree.provider.torch import Report, backend, reports, split, trial
from hipdnn_iree.provider.torch.report import Group
from hipdnn_iree.provider.torch.trial import Seconds, _disturbed, losing
from many_threads import in_threads

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

IREE, TORCH = "IREE_JIT_ENGINE", "TORCH_CPU_ENGINE"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("HIPDNN_IREE_POLICY", raising=False)
    torch._dynamo.reset()
    reports(clear=True)
    with scope(engine_winners=tmp_path / "winners.json"), torch.no_grad():
        yield
    torch._dynamo.reset()


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What makes up times, and returns the list of what was measured."""

    def made_up(code: Callable[[Sequence[str]], float], *whole: float | list[float]) -> list[str]:
        """PyTorch's functions take 1 s each, and 1 s as a whole.

        Code takes ``whole`` where all graphs are code, and where those are that pay.
        """
        asked: list[str] = []

        def watched(modules: Sequence[Any], values: Sequence[Any]) -> list[Seconds]:
            asked.append("each")
            nodes = {node.name: 1.0 for node in modules[0].graph.nodes}
            graphs = {key: code(group.nodes) for key, group in known.items()}
            return [Seconds(nodes, {}), Seconds({part: 0.0 for part, _ in graphs}, graphs)]

        def measure(calls: Sequence[Any], *_: Any, **__: Any) -> list[Samples]:
            asked.append("whole")
            rounds = [us if isinstance(us, list) else [us] for us in whole[: len(calls) - 1]]
            return [Samples(rounds_us=us) for us in (*rounds, [1.0])]

        known: dict[tuple[str, str], Group] = {}
        at = split.Splitter.at

        def noted(self: split.Splitter, sizes: Any) -> split.Split:
            found = at(self, sizes)
            known.update({group.key: group for group in found.groups if group.part})
            return found

        monkeypatch.setattr(split.Splitter, "at", noted)
        monkeypatch.setattr(trial, "_watched", watched)
        monkeypatch.setattr(trial, "measure", measure)
        monkeypatch.setattr(trial, "_disturbed", lambda seen: False)
        return asked

    return made_up


def the_report() -> Report:
    (found,) = reports(clear=True)
    return found


def _model(x: Any, w: Any) -> Any:
    """Two hipDNN graphs in one part."""
    return torch.relu(x @ w) + x.mean()


def run(function: Any = _model, **options: Any) -> Report:
    """Return what became of a function whose results are right at two calls."""
    x, w = torch.randn(6, 12), torch.randn(12, 12)
    made = torch.compile(function, backend="hipdnn_iree", options=options)
    for _ in range(2):
        assert torch.allclose(made(x, w), function(x, w), atol=1e-5)
    return the_report()


# ------------------------------------------------------------------------ the rule


def group(part: str, name: str, *nodes: str) -> Group:
    return Group(part=part, name=name, engine=IREE, nodes=nodes, ops=nodes)


def test_code_has_to_be_clearly_faster() -> None:
    groups = [group("p", "close", "a", "b"), group("p", "fast", "c")]
    native = Seconds({"a": 1.0, "b": 1.0, "c": 1.0}, {})
    fused = Seconds({"p": 0.0}, {("p", "close"): 1.9, ("p", "fast"): 0.9})
    assert losing(groups, native, fused) == groups[:1]
    fused = Seconds({"p": 0.0}, {("p", "close"): 1.8, ("p", "fast"): 2.0})
    assert losing(groups, native, fused) == groups[1:]


def test_a_part_has_to_pay_for_its_borders() -> None:
    """As the input that is copied: 0.5 beside graphs that save 0.6 together, or 0.3 alone."""
    groups = [group("p", "one", "a"), group("p", "two", "b"), group("q", "three", "c")]
    native = Seconds({"a": 1.0, "b": 1.0, "c": 1.0}, {})
    code = {("p", "one"): 0.6, ("p", "two"): 0.6, ("q", "three"): 0.6}
    assert losing(groups, native, Seconds({"p": 0.6, "q": 0.3}, code)) == []
    assert losing(groups, native, Seconds({"p": 0.7, "q": 0.3}, code)) == groups[:2]
    assert losing(groups, native, Seconds({"p": 0.6, "q": 0.5}, code)) == groups[2:]
    code["p", "two"] = 2.0  # what is left must pay alone
    assert losing(groups, native, Seconds({"p": 0.6, "q": 0.3}, code)) == groups[:2]


def test_graphs_are_timed_apart_from_copies_and_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a part that gets an address which no code takes: the result is right all the same."""
    parts: list[Any] = []
    call_of = split._call
    monkeypatch.setattr(split, "_call", lambda *given: parts.append(call_of(*given)) or parts[-1])
    x, w = torch.randn(6, 12), torch.randn(12, 12)
    torch.compile(_model, backend="hipdnn_iree", options={"policy": "order"})(x, w)
    names = [one.name for one in the_report().groups]
    (part,) = parts
    for given in (x, torch.empty(6 * 12 + 1)[1:].view(6, 12).copy_(x)):
        for _ in range(2):  # bound at first
            seen: list[str] = []
            found = part(given, w, watch=lambda name, _, seen=seen: seen.append(name))
            assert torch.allclose(found, _model(x, w), atol=1e-5)
            assert sorted(seen) == ["", *names]


def test_times_count_where_pytorch_had_the_cores() -> None:
    """In its best call: on a quiet machine the calling thread computes, or spins, all the time."""
    assert not _disturbed([(9.0, 1.0), (1.0, 0.95)])
    assert _disturbed([(9.0, 9.0), (1.0, 0.5)])


# ------------------------------------------------------------------------ in torch.compile


def test_code_that_is_faster_by_itself_and_as_a_whole_is_kept(times: Any) -> None:
    asked = times(lambda nodes: 0.1, 0.5)
    found = run()
    assert (set(found.engines), found.parts) == ({IREE}, 1)
    assert asked == ["each", "whole"]


def test_code_that_is_slower_as_a_whole_is_not_kept(times: Any) -> None:
    """Although each graph is ten times as fast: two libraries' threads take turns in the model."""
    asked = times(lambda nodes: 0.1, 0.95)
    found = run()
    assert (set(found.engines), found.parts) == ({TORCH}, 0)
    assert asked == ["each", "whole"]


def test_code_that_is_slower_by_itself_is_left_to_pytorch(times: Any) -> None:
    asked = times(lambda nodes: 9.0 if "mm" in nodes else 0.1, 0.6, 0.5)
    found = run()
    engines = {node: one.engine for one in found.groups for node in one.nodes}
    assert (engines["mm"], engines["mean"]) == (TORCH, IREE)
    assert asked == ["each", "each", "whole"]  # what is kept is measured again


@pytest.mark.parametrize("thinned", [(), (0.5,)])
def test_the_whole_decides_between_all_code_and_what_is_left_of_it(
    times: Any, thinned: tuple[float, ...]
) -> None:
    """What is slower by itself may be faster among its like, where no thread has to be woken."""
    times(lambda nodes: 9.0 if "mm" in nodes or not thinned else 0.1, 0.4, *thinned)
    found = run()
    assert (set(found.engines), found.parts) == ({IREE}, 1)


@pytest.mark.parametrize("rounds", [[0.5, 1.0, 1.0], [0.8, 0.95, 0.95]])
def test_code_that_is_fast_now_and_then_is_not_kept(times: Any, rounds: list[float]) -> None:
    times(lambda nodes: 9.0, rounds)
    assert set(run().engines) == {TORCH}


def test_nothing_is_kept_that_was_measured_beside_other_programs(
    times: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    times(lambda nodes: 0.1, 0.1)
    monkeypatch.setattr(trial, "_disturbed", lambda seen: True)
    assert set(run().engines) == {TORCH}


def test_code_that_is_slower_everywhere_is_not_kept(times: Any) -> None:
    asked = times(lambda nodes: 9.0, 0.95)
    found = run()
    assert (set(found.engines), found.parts) == ({TORCH}, 0)
    assert asked == ["each", "whole"]


def test_who_says_who_runs_a_graph_is_not_measured(times: Any, tmp_path: Path) -> None:
    asked = times(lambda nodes: 9.0, 9.0)
    assert set(run(policy="order").engines) == {IREE}
    assert set(run(engine="torch").engines) == {TORCH}
    with scope(engine_deselect="torch"):
        assert set(run().engines) == {IREE}
    assert not asked
    rules = tmp_path / "rules.json"
    rule = {"op": "matmul", "engine_name": IREE, "tensors": [{"dim": [-1, -1]}] * 2}
    rules.write_text(json.dumps({"engine_overrides": [rule]}))
    torch._dynamo.reset()
    with scope(engine_config=rules):
        found = run()
    engines = {node: one.engine for one in found.groups for node in one.nodes}
    assert (engines["mm"], engines["mean"]) == (IREE, TORCH)
    assert asked == ["each", "whole"]  # of the mean


def test_what_has_effects_runs_once_in_a_call(times: Any) -> None:
    seen: list[int] = []

    @torch.library.custom_op("hipdnn_iree_tests::seen", mutates_args=())
    def note(x: torch.Tensor) -> torch.Tensor:
        seen.append(len(seen))
        return x.clone()

    note.register_fake(torch.empty_like)
    asked = times(lambda nodes: 0.1, 0.1)
    found = run(lambda x, w: _model(note(x), w))
    assert (set(found.engines), asked) == ({TORCH, "pytorch"}, [])
    assert len(seen) == 4  # two calls, and two of the function itself


def test_random_numbers_are_those_of_pytorch() -> None:
    """Measured in earnest: what is drawn meanwhile does not count."""

    def noisy(x: Any, w: Any) -> Any:
        return _model(x, w) + torch.rand(12)

    x, w = torch.randn(6, 12), torch.randn(12, 12)
    made = torch.compile(noisy, backend=backend)
    torch.manual_seed(3)
    got = [made(x, w) for _ in range(2)]
    torch.manual_seed(3)
    for one in got:
        assert torch.allclose(one, noisy(x, w), atol=1e-5)
    assert set(the_report().engines) <= {IREE, TORCH, "pytorch"}


@pytest.mark.parametrize(("whole", "engines"), [((0.6, 0.5), {IREE, TORCH}), ((0.4, 0.5), {IREE})])
def test_other_sizes_are_as_the_first(
    times: Any, whole: tuple[float, ...], engines: set[str]
) -> None:
    asked = times(lambda nodes: 9.0 if "mm" in nodes else 0.1, *whole)
    made = torch.compile(_model, backend=backend, dynamic=True)
    w = torch.randn(12, 12)
    for rows in (5, 3, 5, 9):
        x = torch.randn(rows, 12)
        assert torch.allclose(made(x, w), _model(x, w), atol=1e-5)
    assert asked == ["each", "each", "whole"]
    assert set(the_report().engines) == engines


def test_many_threads_decide_once(times: Any) -> None:
    asked = times(lambda nodes: 0.1, 0.5)
    x, w = torch.randn(6, 12), torch.randn(12, 12)
    made: list[Any] = []
    torch.compile(_model, backend=lambda *given: made.append(backend(*given)) or given[0])(x, w)
    wanted = _model(x, w)

    def work(_: int) -> None:
        assert torch.allclose(made[0](x, w)[0], wanted, atol=1e-5)

    in_threads(4, work)
    assert asked == ["each", "whole"]


def test_packed_weights_of_code_that_is_not_kept_are_given_back(
    times: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Any]] = []

    class Noted(split.HeldWeights):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(weakref.ref(self))

    monkeypatch.setattr(split, "HeldWeights", Noted)
    times(lambda nodes: 0.1, 0.95)
    module = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.ReLU())
    served = torch.compile(module, backend="hipdnn_iree", options={"hold_weights": True})
    x = torch.randn(3, 12)
    assert torch.allclose(served(x), module(x), atol=1e-5)
    assert set(the_report().engines) == {TORCH}
    gc.collect()
    assert made
    assert not [one for one in made if one() is not None]
