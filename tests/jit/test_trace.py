# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces: nested and ordered events of builds, the worker and executions; nothing without one."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import CompileError, Graph, NotSupportedError, trace
from hipdnn_iree.jit import trace as trace_module
from hipdnn_iree.jit.inspect.profile import DispatchRun, tell_runs
from hipdnn_iree.jit.trace import Event, Trace, span, tell, tell_spans
from hipdnn_iree.provider.plan import Plan


def relu(name: str = "") -> Plan:
    g = Graph(name, io_data_type="float")
    g.relu(g.tensor(dims=(3, 5), name="x"), name="the relu").set_output().set_name("y")
    return g.build("cpu")


def complete(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in data["traceEvents"] if event["ph"] == "X"]


def check_nesting(data: dict[str, Any]) -> None:
    """Check what Perfetto wants: events in order, and those of a thread inside each other."""
    events = complete(data)
    assert [e["ts"] for e in events] == sorted(e["ts"] for e in events)
    assert all(e["dur"] >= 0 for e in events)
    for thread in {(e["pid"], e["tid"]) for e in events}:
        stack: list[float] = []
        for event in (e for e in events if (e["pid"], e["tid"]) == thread):
            end = event["ts"] + event["dur"]
            while stack and event["ts"] >= stack[-1]:
                stack.pop()
            assert not stack or end <= stack[-1] + 1e-3, event
            stack.append(end)


def test_a_build_and_its_executions(tmp_path: Path) -> None:
    g = Graph("traced", io_data_type="float")
    x = g.tensor(dims=(4, 7), name="x")
    y = g.tanh(g.add(x, 0.1234, name="unlike any other")).set_output()
    file = tmp_path / "trace.json"
    with trace(file) as found:
        plan = g.build("cpu", knobs={"opt_level": "O1"})
        one = plan.random_inputs()
        plan.run(one)
        out = {y.uid: np.empty((4, 7), np.float32)}
        plan.execute({**one, **out})
        call = plan.bind({**one, **out})
        call()
        call()
        plan.execute_async({**one, **out}).wait()
        plan.execute_many([{**one, **out}])
    data = json.loads(file.read_text())
    check_nesting(data)
    names = [event["name"] for event in complete(data)]
    for name in ("choose an engine", "build", "look up", "load", "run", "bind", "submit",
                 "execute many"):  # fmt: skip
        assert names.count(name) == 1, name
    assert names.count("execute") == 3
    (built,) = [e for e in complete(data) if e["name"] == "build"]
    assert built["args"] == {"graph": "traced", "target": "cpu"}
    inside = [
        e
        for e in complete(data)
        if e["pid"] == os.getpid() and built["ts"] <= e["ts"] < built["ts"] + built["dur"]
    ]
    assert {"lower", "compile", "ask the worker"} <= {e["name"] for e in inside}
    # The compiler's process has events of its own, within the time that it was asked.
    (asked,) = [e for e in complete(data) if e["name"] == "ask the worker"]
    worker = [e for e in complete(data) if e["pid"] == asked["args"]["worker"]]
    assert [e["name"] for e in worker] == [
        "load the compiler", "parse", "run the passes", "write the module",
        "read the workspace's size",
    ]  # fmt: skip
    assert all(asked["ts"] <= e["ts"] for e in worker)
    assert worker[-1]["ts"] + worker[-1]["dur"] <= asked["ts"] + asked["dur"]
    named = {
        e["pid"]: e["args"]["name"] for e in data["traceEvents"] if e["name"] == "process_name"
    }
    assert named == {os.getpid(): "hipdnn-iree", worker[0]["pid"]: "compiler worker"}
    assert found.as_dict() == data
    # Bound calls are what they are: nothing is recorded any more, and nothing is lost.
    call()
    assert len(complete(found.as_dict())) == len(names)


def test_without_a_trace_nothing_is_wrapped_or_recorded() -> None:
    plan = relu()
    inputs = plan.random_inputs()
    buffers = {**inputs, plan.graph.outputs[0]: np.empty((3, 5), np.float32)}
    assert type(plan.bind(buffers)).__name__ == "BoundPlan"
    with trace(executions=False) as found:
        assert type(plan.bind(buffers)).__name__ == "BoundPlan"
        plan.run(inputs)
    assert [event for event in found.events if event.name in ("run", "bind")] == []
    assert span("anything") is span("else")


def test_a_bound_call_keeps_what_it_can() -> None:
    plan = relu()
    buffers = {**plan.random_inputs(), plan.graph.outputs[0]: np.empty((3, 5), np.float32)}
    with trace() as found:
        call = plan.bind(buffers)
        call.resident()  # type: ignore[attr-defined]  # what is timed: not an event
        assert isinstance(call.staged, tuple)  # type: ignore[attr-defined]
        with pytest.raises(AttributeError):
            call.nothing  # type: ignore[attr-defined]  # noqa: B018
        call()
    assert [event.name for event in found.events].count("execute") == 1


def test_an_error_ends_its_events_and_the_trace_is_written(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    with pytest.raises(CompileError), trace(file), span("outer"), span("inner"):
        raise CompileError("no", stage="compile")
    data = json.loads(file.read_text())
    check_nesting(data)
    assert [event["name"] for event in complete(data)] == ["outer", "inner"]
    assert trace_module.traced() == ()


def test_traces_within_each_other_and_other_threads() -> None:
    with trace() as outer:
        with trace() as inner:
            thread = threading.Thread(target=lambda: tell("t", "c", 1, 2), name="mine")
            thread.start()
            thread.join()
        tell("late", "c", 3, 4)
    assert [e.name for e in outer.events] == ["t", "late"]
    assert [e.name for e in inner.events] == ["t"]
    assert inner.events[0].tid != threading.get_native_id()
    threads = [e["args"]["name"] for e in inner.as_dict()["traceEvents"]
               if e["name"] == "thread_name"]  # fmt: skip
    assert threads == ["mine"]


def test_a_loop_of_executions_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "MOST_EVENTS", 2)
    found = Trace()
    about: dict[str, Any] = {"begin_ns": 0, "end_ns": 1, "pid": 1, "tid": 1, "about": {}}
    for category in ("execute", "execute", "execute", "build"):
        found.add(Event(name="x", category=category, **about))
    assert [e.category for e in found.events] == ["execute", "execute", "build"]
    assert found.as_dict()["otherData"]["executions left out"] == "1"


def test_spans_of_others_are_of_their_process() -> None:
    with trace() as found:
        tell_spans([["a", "compiler", 5, 9]], pid=4242, process="worker")
    (event,) = found.events
    assert (event.pid, event.tid, event.begin_ns, event.end_ns) == (4242, 4242, 5, 9)
    assert found.processes[4242] == "worker"
    tell_spans([["a", "compiler", 5, 9]], pid=1, process="nobody records")


# ---------------------------------------------------------------------------- dispatches


def test_dispatches_as_iree_tells_them() -> None:
    plan = relu("profiled")
    with trace() as found:
        launches = plan.profile(runs=2)
    assert len(launches) == 2
    assert all(one.begin_ns <= one.end_ns for one in launches)
    events = [event for event in found.events if event.category == "dispatch"]
    assert [event.about["nodes"] for event in events] == ["the relu"] * 2
    (asked,) = [event for event in found.events if event.name == "profile"]
    assert all(asked.begin_ns <= e.begin_ns <= e.end_ns <= asked.end_ns for e in events)
    check_nesting(found.as_dict())


def test_launches_at_the_same_time_lie_side_by_side() -> None:
    def run(name: str, begin: int, end: int) -> DispatchRun:
        return DispatchRun(name=name, begin_ns=begin, end_ns=end, workgroups=(2, 1), pid=7)

    with trace() as found:
        tell_runs([run("a", 0, 10), run("a", 5, 7), run("b", 8, 12), run("a", 11, 20)],
                  {"a": ["n0", "n1"]})  # fmt: skip
    assert [(e.name, e.tid, e.about["nodes"]) for e in found.events] == [
        ("a", 7, "n0"), ("a", 8, "n1"), ("b", 8, ""), ("a", 7, "n0"),
    ]  # fmt: skip
    check_nesting(found.as_dict())


def test_who_does_not_tell_says_so() -> None:
    g = Graph("dynamic", io_data_type="float")
    n = g.dynamic("n", range=(1, 64))
    g.relu(g.tensor(dims=(n, 3), name="x")).set_output()
    with pytest.raises(NotSupportedError, match="does not say how long the dispatches of 'dynamic"):
        g.build("cpu").profile()
    h = Graph("by reference", io_data_type="float")
    h.relu(h.tensor(dims=(2, 3))).set_output()
    plan = h.build("cpu", engine="reference")
    assert plan.dispatches() == ()
    assert plan.engines() == ("REFERENCE_ENGINE",)
    with pytest.raises(NotSupportedError, match="REFERENCE_ENGINE does not say"):
        plan.profile()
