# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A thread goes before no other one when it wakes from waiting for IREE's workers (W-153)."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.jit.runtime import pending, waiting
from hipdnn_iree.jit.runtime.waiting import patient

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="policies of Linux")


@pytest.fixture(autouse=True)
def policy() -> Iterator[None]:
    """The policy of the thread is the usual one, before and after."""
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    yield
    found = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    assert found == os.SCHED_OTHER


def _seen(*args: Any, **kwargs: Any) -> tuple[int, tuple[Any, ...], dict[str, Any]]:
    return os.sched_getscheduler(0), args, kwargs


def test_the_call_is_made_as_a_batch() -> None:
    assert patient(_seen)(1, b=2) == (os.SCHED_BATCH, (1,), {"b": 2})


def test_an_error_leaves_the_policy_as_it_was() -> None:
    def fails() -> None:
        raise ValueError("of the call")

    with pytest.raises(ValueError, match="of the call"):
        patient(fails)()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_policy_of_the_programs_own_stays() -> None:
    found: list[int] = []

    def other() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        found.extend([patient(_seen)()[0], os.sched_getscheduler(0)])

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [os.SCHED_IDLE, os.SCHED_IDLE]


def test_within_each_other() -> None:
    def inner() -> int:
        return patient(_seen)()[0]

    assert patient(inner)() == os.SCHED_BATCH


def test_a_niceness_stays() -> None:
    found: list[int] = []

    def nice() -> None:
        me = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, me, 5)
        patient(_seen)()
        found.append(os.getpriority(os.PRIO_PROCESS, me))

    thread = threading.Thread(target=nice)
    thread.start()
    thread.join()
    assert found == [5]


def test_where_the_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert patient(_seen)(1)[:2] == (os.SCHED_OTHER, (1,))


def test_elsewhere_than_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting.sys, "platform", "darwin")
    assert patient(_seen) is _seen


@pytest.mark.parametrize("driver", ["local-sync", "local-task"])
def test_calls_on_workers_only(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_DRIVER", driver)
    graph = Graph("waits", io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(4, 4), name="x")
    y = graph.add(x, x).set_output()
    plan = graph.build("cpu")
    changes: list[int] = []
    change = os.sched_setscheduler

    def told(pid: int, policy: int, priority: os.sched_param) -> None:
        changes.append(policy)
        change(pid, policy, priority)

    monkeypatch.setattr(os, "sched_setscheduler", told)
    data, result = np.ones((4, 4), np.float32), np.full((4, 4), np.nan, np.float32)
    plan.bind({x: data, y: result})()
    pair = [os.SCHED_BATCH, os.SCHED_OTHER]
    assert changes == pair * (driver == "local-task")
    assert (result == 2).all()


def test_waiting_for_what_was_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Semaphore:
        def wait(self, value: int, timeout: int | None = None) -> bool:
            found.append((os.sched_getscheduler(0), value, timeout))
            return True

    found: list[tuple[int, int, int | None]] = []
    point: Any = (Semaphore(), 3)
    assert pending.reached(point)
    assert pending.reached(point, 0.5)
    assert pending.reached(point, 0.0)  # asks, and does not wait
    batch, usual = os.SCHED_BATCH, os.SCHED_OTHER
    assert found == [(batch, 3, None), (batch, 3, 500_000_000), (usual, 3, 0)]
