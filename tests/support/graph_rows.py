# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs built and checked as a sweep does it, in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, TypeVar

from hipdnn_iree import DataType, Graph
from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.provider.plan import Plan
from hipdnn_iree.provider.sweep import case_worker
from hipdnn_iree.provider.sweep.case_task import CaseTask, SweepOptions
from hipdnn_iree.provider.sweep.gaps import red_zones
from hipdnn_iree.provider.sweep.sources import read_all
from hipdnn_iree.provider.sweep.suite import Case
from hipdnn_iree.provider.verify import Report, compare, expect, poisoned_outputs, random_inputs

__all__ = ["apart", "check_emulated", "emulated_row", "row_of", "row_of_graph", "run_and_compare"]

Result = TypeVar("Result")


def run_and_compare(plan: Plan, graph: FrozenGraph, seed: int) -> Report:
    """Run a plan on random inputs and poisoned outputs, and compare with the reference.

    Memory between the elements of an output, before and behind it must not change.
    """
    inputs, outputs = random_inputs(graph, seed), poisoned_outputs(graph)
    zones = red_zones(graph, seed)
    outputs |= {uid: zone.array for uid, zone in zones.items()}
    buffers: dict[Any, Any] = {**inputs, **outputs}
    plan.execute(buffers)
    for uid, zone in zones.items():
        outputs[uid] = zone.result
        assert not list(zone.touched()), graph.tensors[uid].label
    return compare(graph, outputs, expect(graph, inputs, plan.target))


def row_of(line: str, engine: str = "iree", target: str = "cpu", **options: Any) -> dict[str, Any]:
    """Return the row of the one case that a line stands for, such as ``fuzz --seed 5``."""
    (case,) = read_all([line]).cases
    return _row(case, engine, target, options)


def row_of_graph(
    graph: FrozenGraph, engine: str = "iree", target: str = "cpu", **options: Any
) -> dict[str, Any]:
    """Return the row of a graph."""
    build = partial(_read, dumps(graph))
    case = Case(name="graph", dtypes=(DataType.FLOAT,), build=build)
    return _row(case, engine, target, options)


def emulated_row(
    graph: FrozenGraph, target: str = "gfx942", *, damage_at: int | None = None, **options: Any
) -> dict[str, Any]:
    """Return the row of a graph on an emulated GPU, which stays in a process that has it.

    ``damage_at``: this byte of each output, such as the one before it, changes after the run.
    """
    return apart(_emulated, dumps(graph), target, damage_at, options)


def apart(function: Callable[..., Result], *arguments: object) -> Result:
    """Return what a function returns in a new process: one that emulates a GPU keeps it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def check_emulated(graph: Graph, target: str = "gfx942") -> None:
    """Every element of a graph's results is right on an emulated GPU."""
    found = emulated_row(graph.freeze(), target)
    assert (found["status"], found["device"]) == ("ok", "emulated"), found
    assert found["check"]["bad"] == 0


def _emulated(
    text: str, target: str, damage_at: int | None, options: dict[str, Any]
) -> dict[str, Any]:
    right = case_worker.results_of

    def and_damage(graph: FrozenGraph, call: Any, outputs: Any) -> dict[int, Any]:
        results = right(graph, call, outputs)
        for array in outputs.values():
            ctypes.c_uint8.from_address(array.ctypes.data + damage_at).value ^= 1
        return results

    if damage_at is not None:
        case_worker.results_of = and_damage
    graph = Graph.from_json(text).freeze()
    return row_of_graph(graph, target=target, emulate=True, **options)


def _read(text: str, data_type: DataType) -> Graph:
    return Graph.from_json(text)


def _row(case: Case, engine: str, target: str, options: dict[str, Any]) -> dict[str, Any]:
    task = CaseTask(
        case=case, engines=(engine,), target=target, threads=1, options=SweepOptions(**options)
    )
    return case_worker._Work(task, lambda step, **facts: None).checked(engine)
