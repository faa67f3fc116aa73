# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How plans are called: at once, later, many at a time, on streams; and by which driver."""

from __future__ import annotations

import asyncio
import gc
import os
import weakref
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import BindError, DeviceError
from hipdnn_iree.jit.runtime import device as device_module
from hipdnn_iree.jit.runtime.device import Device
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.jit.work import cpu_us
from hipdnn_iree.provider.engines.iree.iree_plan import driver_for

CPU = Target.parse("cpu")


def doubled(dims: tuple[int, ...] = (3, 4)) -> Graph:
    graph = Graph("doubled", io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=dims, name="x")
    graph.add(x, x).set_output().set_name("y")
    return graph


def product(extent: int) -> Graph:
    graph = Graph("product", io_data_type="float", compute_data_type="float")
    a, b = (graph.tensor(dims=(extent, extent)) for _ in range(2))
    graph.matmul(a, b).set_output()
    return graph


def open_rows() -> Graph:
    graph = Graph("rows", io_data_type="float", compute_data_type="float")
    rows = graph.dynamic("n", range=(1, 64), example=4)
    x = graph.tensor(dims=(rows, 4), name="x")
    graph.add(x, x).set_output().set_name("y")
    return graph


@pytest.mark.parametrize("engine", ["iree", "reference"])
@pytest.mark.parametrize("driver", ["local-sync", "local-task"])
def test_every_engine_starts_runs_and_takes_many_sets(engine: str, driver: str) -> None:
    with scope(runtime_driver=driver):
        plan = doubled().build("cpu", engine=engine)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    first, second, third = (np.full_like(x, np.nan) for _ in range(3))
    pending = plan.execute_async({"x": x, "y": first})
    plan.execute_async({"x": first, "y": second}, after=[pending]).wait()
    np.testing.assert_array_equal(second, 4 * x)
    plan.execute_many([{"x": a, "y": b} for a, b in ((x, first), (first, second), (second, third))])
    np.testing.assert_array_equal(third, 8 * x)
    third[:] = np.nan

    async def later() -> None:
        await plan.execute_async({"x": x, "y": third})

    asyncio.run(later())
    np.testing.assert_array_equal(third, 2 * x)
    with pytest.raises(BindError, match="BIND-05"):
        plan.execute_many([{"x": x, "y": third}, {"x": x, "y": third[:1]}])
    with pytest.raises(BindError, match="BIND-01"):
        plan.execute_async({"x": x})


def test_no_engine_for_the_cpu_takes_a_stream() -> None:
    x, y = (np.ones((3, 4), np.float32) for _ in range(2))
    for engine in ("iree", "reference"):
        plan = doubled().build("cpu", engine=engine)
        for call in (plan.execute, plan.execute_async):
            with pytest.raises(DeviceError, match=r"takes no stream for cpu, got 0x5; leave it"):
                call({"x": x, "y": y}, stream=5)
        with pytest.raises(DeviceError, match="takes no stream"):
            plan.execute_many([], stream=5)


def test_plans_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan for a GPU has one device for each stream, and lets go of it when told to."""
    opened: list[Any] = []

    def create(driver: str, device_id: int, stream: int | None) -> Any:
        opened.append((driver, stream))
        raise DeviceError("no GPU here")

    monkeypatch.setattr(device_module, "_create", create)
    plan = doubled().build("gfx942")
    one = plan.on_stream(0x10)
    assert plan.on_stream(0x10) is one
    assert plan.on_stream(0x20) is not one
    for stream in (0x10, None):
        with pytest.raises(DeviceError, match="no GPU here"):
            plan.execute({}, stream=stream)
    assert opened == [("hip", 0x10), ("hip", None)]
    plan.forget_stream(0x10)
    assert plan.on_stream(0x10) is not one


def test_dynamic_plans_start_runs_and_take_sets_of_many_sizes() -> None:
    plan = open_rows().build("cpu")
    sets, wanted = [], []
    for rows in (2, 2, 7, 1, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 4), np.float32)
        sets.append({"x": x, "y": np.full_like(x, np.nan)})
        wanted.append(2 * x)
    plan.execute_many(sets)
    for buffers, values in zip(sets, wanted, strict=True):
        np.testing.assert_array_equal(buffers["y"], values)
        buffers["y"][:] = np.nan
    for pending in [plan.execute_async(buffers) for buffers in sets]:
        pending.wait()
    for buffers, values in zip(sets, wanted, strict=True):
        np.testing.assert_array_equal(buffers["y"], values)
    with pytest.raises(DeviceError, match="takes no stream"):
        plan.execute(sets[0], stream=1)


def test_dynamic_plans_for_a_gpu_have_streams() -> None:
    plan: Any = open_rows().build("gfx942", exact=True)
    one = plan.on_stream(0x10)
    assert (one.stream, plan.stream) == (0x10, None)
    assert one.with_sizes({"n": 3}).stream == 0x10
    on_cpu = open_rows().build("cpu", exact=True).on_stream(0x10)
    with pytest.raises(DeviceError, match="takes no stream"):
        on_cpu.with_sizes({"n": 3})


# --- which driver -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extent", "driver"),
    [(4, "local-sync"), (64, "local-sync"), (128, "local-sync"), (256, "local-task")],
)
def test_threads_are_for_large_work(
    extent: int, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    graph = product(extent).freeze()
    assert driver_for(graph, CPU, settings()) == driver
    for chosen in ("local-sync", "local-task"):
        with scope(runtime_driver=chosen):
            assert driver_for(graph, CPU, settings()) == chosen
    with scope(runtime_threads=1):
        assert driver_for(graph, CPU, settings()) == "local-sync"
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert driver_for(graph, CPU, settings()) == "local-sync"


def test_the_estimate_grows_with_the_work() -> None:
    times = [cpu_us(product(extent).freeze()) for extent in (1, 16, 64, 256, 1024)]
    assert times == sorted(times)
    assert times[0] < 3
    assert 5_000 < times[-1] < 20_000
    assert cpu_us(doubled((1 << 14, 64)).freeze()) > 20 * cpu_us(doubled().freeze())


def test_a_gpus_driver_does_not_depend_on_the_work() -> None:
    for target, driver in (("gfx942", "hip"), ("cuda:sm_80", "cuda")):
        assert driver_for(product(4).freeze(), Target.parse(target), settings()) == driver


def test_the_driver_that_was_chosen_is_the_one_that_runs() -> None:
    plan: Any = doubled().build("cpu")
    assert plan.executable.device is Device.open("local-sync")


def test_plans_of_one_code_share_what_is_loaded() -> None:
    one, other = doubled(), doubled()
    other.name = "of another name"
    plans: list[Any] = [graph.build("cpu", engine="iree") for graph in (one, other)]
    modules = [plan.executable.module for plan in plans]
    assert modules[0] is modules[1]
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for plan in plans:
        np.testing.assert_array_equal(plan.run({"x": x})["y"], 2 * x)
    gone = weakref.ref(modules[0])
    del plans, plan, modules
    gc.collect()
    assert gone() is None
