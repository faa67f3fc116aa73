# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every sample problem of every op, in every data type it is for, against the reference.

The default run takes each problem in one type, chosen by its name so that all types occur.  Most
of the time of compiling a small module does not depend on what is in it, so these problems are
compiled together, as one graph of unconnected parts; those whose point is what a whole graph is
like are compiled alone.  ``--full`` compiles all problems in all types alone.

What is claimed for gfx9 is compiled: a dozen problems by default, all of them with ``--full``;
what is not claimed has a reason, for every problem and target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import under_settings
from here_and_now import engine
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit import support
from hipdnn_iree.jit.target import GFX9_ARCHS, Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import expect
from hipdnn_iree.provider.sweep.samples import sample_problems
from hipdnn_iree.provider.sweep.serving import rule_texts
from hipdnn_iree.provider.sweep.suite import Case
from together import together
from under_settings import dump

CPU = Target.parse("cpu")
Problem = tuple[Case, DataType]
# Buffers that are one, results that are operands, results that nothing else is computed from.
WHOLE = {"alias", "passthrough", "shared_output"}
TOGETHER = 12


def label(problem: Problem) -> str:
    sample, data_type = problem
    return f"{sample.name}-{data_type.json}"


def chosen() -> Iterator[Problem]:
    """Yield what the default run takes."""
    for sample in sample_problems():
        yield sample, sample.dtypes[crc32(sample.name.encode()) % len(sample.dtypes)]


def packs() -> list[list[Problem]]:
    """Return what is compiled together: up to a dozen problems of one op."""
    by_op = defaultdict(list)
    for sample, data_type in chosen():
        if WHOLE.isdisjoint(sample.tags):
            by_op[sample.name.partition(".")[0]].append((sample, data_type))
    return [
        problems[start : start + TOGETHER]
        for problems in by_op.values()
        for start in range(0, len(problems), TOGETHER)
    ]


def run_together(graphs: Sequence[FrozenGraph], check: Callable[..., Any]) -> None:
    """Run graphs as parts of one; every element of every result must be as expected."""
    graph, shifts = together(graphs)
    iree = engine("iree")
    assert not iree.declines(graph, CPU)
    try:
        plan = iree.build(graph, CPU)
    except CompileError:
        for part in graphs:
            check(part)  # which of them it is
        raise
    parts = [
        (part, shift, verify.random_inputs(part, seed=1), verify.poisoned_outputs(part))
        for part, shift in zip(graphs, shifts, strict=True)
    ]
    buffers = {
        uid + shift: array
        for _, shift, inputs, outputs in parts
        for uid, array in {**inputs, **outputs}.items()
    }
    plan.execute(buffers)
    reports = {
        part.name: verify.compare(part, outputs, expect(part, inputs))
        for part, _, inputs, outputs in parts
    }
    wrong = [f"{name}: {report}" for name, report in reports.items() if not report.ok]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("pack", packs(), ids=lambda p: f"{label(p[0])}..{label(p[-1])}")
def test_samples_match_the_reference(pack: list[Problem], check: Callable[..., Any]) -> None:
    by_flags = defaultdict(list)
    for sample, data_type in pack:
        graph = replace(sample.graph(data_type).freeze(), name=label((sample, data_type)))
        by_flags[under_settings.flags(graph, CPU)].append(graph)
    for flags, graphs in by_flags.items():
        assert under_settings.flags(together(graphs)[0], CPU) == flags
        run_together(graphs, check)


def test_a_wrong_part_is_named(monkeypatch: pytest.MonkeyPatch, check: Callable[..., Any]) -> None:
    by_name = {sample.name: sample for sample in sample_problems()}
    graphs = [
        replace(by_name[name].graph(DataType.FLOAT).freeze(), name=name)
        for name in ("matmul.primes", "pointwise.relu_all", "matmul.1x1x1")
    ]
    run_together(graphs, check)

    right = expect

    def other(graph: FrozenGraph, inputs: dict[int, Any]) -> Any:
        wrong = graph.name == "pointwise.relu_all"
        return right(graph, verify.random_inputs(graph, seed=2) if wrong else inputs)

    monkeypatch.setitem(run_together.__globals__, "expect", other)
    with pytest.raises(AssertionError, match=r"^pointwise\.relu_all: .* elements wrong") as caught:
        run_together(graphs, check)
    assert "matmul" not in str(caught.value)


def every_problem() -> list[Problem]:
    return [(sample, data_type) for sample in sample_problems() for data_type in sample.dtypes]


# Of this many parts of all problems, one is compiled for gfx9 by default: about a dozen.
_PARTS = 300


def for_gfx9(problem: Problem) -> bool:
    return crc32(label(problem).encode()) % _PARTS == 0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make cases of the problems that are compiled alone: with ``--full`` of all, some else."""
    which: dict[str, Callable[[Problem], bool]] = {
        "alone": lambda problem: not WHOLE.isdisjoint(problem[0].tags),
        "on_gfx9": for_gfx9,
    }
    for name in which.keys() & set(metafunc.fixturenames):
        if metafunc.config.getoption("--full"):
            problems = every_problem()
        else:
            problems = list(filter(which[name], chosen() if name == "alone" else every_problem()))
        metafunc.parametrize(name, problems, ids=label)


def test_sample_matches_the_reference(alone: Problem, check: Callable[..., Any]) -> None:
    sample, data_type = alone
    check(sample.graph(data_type).freeze())


def test_what_is_claimed_compiles(on_gfx9: Problem, tmp_path: Path) -> None:
    archs = list(GFX9_ARCHS)
    arch = archs[crc32(label(on_gfx9).encode()) % len(archs)]
    target = Target.parse("gfx942" if for_gfx9(on_gfx9) else arch)
    sample, data_type = on_gfx9
    graph = sample.graph(data_type).freeze()
    if declines := list(support.problems(graph, target)):
        pytest.skip(f"declined by {declines[0].rule}")
    found = dump(graph, target, tmp_path)
    assert found.vmfb
    # Some graphs are nothing but copies.
    kernels = list((tmp_path / "dispatches").glob("*.rocmasm"))
    assert bool(kernels) == bool(found.statistics["dispatches"])


def test_what_is_declined_has_a_reason() -> None:
    rules = rule_texts()
    for sample in sample_problems():
        for data_type in sample.dtypes:
            graph = sample.graph(data_type).freeze()
            for target in GFX9_ARCHS:
                for problem in support.problems(graph, Target.parse(target)):
                    where = f"{sample.name} {data_type.json} {target}"
                    assert problem.rule in rules, where
                    assert problem.node, where
                    assert problem.port, where
                    assert problem.got, where
                    assert problem.wanted, where
