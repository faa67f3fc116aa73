# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs that are started and waited for, many sets of buffers, streams, shared workspaces."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.errors import BindError, DeviceError, SettingError
from hipdnn_iree.jit.runtime import device as device_module
from hipdnn_iree.jit.runtime import streams
from hipdnn_iree.jit.runtime.arrays import aligned_bytes
from hipdnn_iree.jit.runtime.device import Device, Driver
from hipdnn_iree.jit.runtime.executable import Executable
from hipdnn_iree.jit.runtime.loaded_module import LoadedModule
from hipdnn_iree.jit.runtime.pending import Pending
from hipdnn_iree.jit.runtime.workspaces import WorkspacePool, pool_of

ROOT = Path(__file__).resolve().parents[3]
DRIVERS = ("local-sync", "local-task")
SIZE = 48 * 48 * 4


def aligned(fill: float = np.nan) -> Any:
    array = aligned_bytes(SIZE).view(np.float32).reshape(48, 48)
    array[...] = fill
    return array


def problem(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x, w = aligned(), aligned()
    x[...], w[...] = rng.standard_normal((2, 48, 48), np.float32) / 7
    return x, w, x @ w @ w


def near(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)


# --- submit and execute_async -----------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
def test_submitted_runs_end(chain_case: Any, driver: str) -> None:
    chain = chain_case.load(driver)
    x, w, wanted = problem(1)
    y = aligned()
    plan = chain.bind({1: y, 2: x, 3: w})
    for _ in range(20):
        y[...] = np.nan
        pending = plan.submit()
        assert pending.wait(300)
        near(y, wanted)
        assert pending.done
        assert repr(pending) == "Pending(done)"
    y[...] = np.nan
    pending = chain.execute_async({1: y, 2: x, 3: w})
    while not pending.done:
        pass
    near(y, wanted)


@pytest.mark.parametrize("driver", DRIVERS)
def test_runs_of_one_plan_follow_one_another(chain_case: Any, driver: str) -> None:
    """Also those that are called; all of them share one workspace."""
    chain = chain_case.load(driver)
    x, w, wanted = problem(2)
    y = aligned()
    plan = chain.bind({1: y, 2: x, 3: w})
    before = pool_of(chain.device).count
    pendings = [plan.submit() for _ in range(50)]
    plan()
    pendings += [plan.submit() for _ in range(5)]
    assert pool_of(chain.device).count <= before + 1
    assert all(p.wait() for p in reversed(pendings))
    near(y, wanted)
    assert plan._parts is not None
    assert plan._parts.in_flight.workspace is None  # it went back


@pytest.mark.parametrize("driver", DRIVERS)
def test_after_gives_the_order(chain_case: Any, driver: str) -> None:
    """A pipeline of eight products, each run on the result of the one before."""
    chain = chain_case.load(driver)
    x, w, _ = problem(3)
    values, pending = [x, *(aligned() for _ in range(8))], Pending.finished()
    for source, target in itertools.pairwise(values):
        pending = chain.execute_async({1: target, 2: source, 3: w}, after=[pending])
    pending.wait()
    wanted = x
    for value in values[1:]:
        wanted = wanted @ w @ w
        near(value, wanted)


def test_a_run_waits_for_one_of_another_device(chain_case: Any) -> None:
    one, two = chain_case.load("local-task"), chain_case.load("local-sync")
    x, w, _ = problem(4)
    a, b = aligned(), aligned()
    first = one.execute_async({1: a, 2: x, 3: w})
    two.execute_async({1: b, 2: a, 3: w}, after=[first]).wait()
    near(b, x @ w @ w @ w @ w)


def test_a_dropped_run_goes_on_and_its_memory_lives_until_its_end(chain_case: Any) -> None:
    chain = chain_case.load("local-task")
    x, w, wanted = problem(5)
    gate = chain.device.hal.create_semaphore(0)
    opened = Pending(chain.device, (gate, 1))
    outputs, alive = [aligned() for _ in range(40)], []
    pending = opened
    for y in outputs:
        copy = aligned()
        copy[...] = x
        alive.append(weakref.ref(copy))
        pending = chain.execute_async({1: y, 2: copy, 3: w}, after=[pending])  # drops the last
        del copy
    assert not pending.done
    assert all(memory() is not None for memory in alive)
    assert np.isnan(outputs[0]).all()
    gate.signal(1)
    assert pending.wait(300)
    for y in outputs:
        near(y, wanted)
    chain.execute_async({1: outputs[0], 2: x, 3: w}).wait()
    assert not any(memory() is not None for memory in alive)


def test_a_process_ends_after_the_runs_that_it_dropped(chain_case: Any, tmp_path: Path) -> None:
    (tmp_path / "chain.vmfb").write_bytes(chain_case.vmfb)
    code = """
import sys, time
import numpy as np
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.jit.runtime.device import Device
from hipdnn_iree.jit.runtime.loaded_module import LoadedModule
from hipdnn_iree.jit.runtime.executable import Executable
from hipdnn_iree.jit.signature import ArgSpec, Signature
module = LoadedModule.load(Device.open("local-task"), open(sys.argv[1], "rb").read())
about = dict(data_type=DataType.FLOAT, dims=(48, 48), strides=(48, 1), shape=(48, 48))
args = tuple(ArgSpec(output=output, **about) for output in (True, False, False))
signature = Signature(args=args, workspace_bytes=module.workspace_bytes)
executable = Executable(module, signature, (1, 2, 3))
from hipdnn_iree.jit.runtime.arrays import empty
for _ in range(200):
    executable.execute_async({uid: empty(args[0]) for uid in (1, 2, 3)})
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "chain.vmfb")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_many_threads_submit(chain_case: Any) -> None:
    chain = chain_case.load("local-task")
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            x, w, wanted = problem(seed)
            y = aligned()
            plan = chain.bind({1: y, 2: x, 3: w})
            for turn in range(40):
                y[...] = np.nan
                pending = plan.submit() if turn % 2 else chain.execute_async({1: y, 2: x, 3: w})
                pending.wait()
                near(y, wanted)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not failures
    assert pool_of(chain.device).count <= 5


def test_runs_are_awaited(chain_case: Any) -> None:
    chain = chain_case.load("local-task")
    problems = [problem(seed) for seed in range(6)]
    outputs = [aligned() for _ in problems]

    async def one(y: Any, x: Any, w: Any) -> None:
        await chain.execute_async({1: y, 2: x, 3: w})

    async def all_of_them() -> None:
        pairs = zip(outputs, problems, strict=True)
        await asyncio.gather(*(one(y, x, w) for y, (x, w, _) in pairs))

    asyncio.run(all_of_them())
    for y, (_, _, wanted) in zip(outputs, problems, strict=True):
        near(y, wanted)


def test_a_plan_that_copies_is_done_at_once(chain_case: Any) -> None:
    chain = chain_case.load("local-task")
    x, w, wanted = problem(6)
    y = aligned_bytes(SIZE + 64)[4 : SIZE + 4].view(np.float32).reshape(48, 48)
    plan = chain.bind({1: y, 2: x, 3: w})
    assert plan.staged == ("y",)
    assert plan.submit().done
    near(y, wanted)


def test_a_closed_plan_and_bad_buffers_start_nothing(chain_case: Any) -> None:
    chain = chain_case.load("local-task")
    x, w, wanted = problem(7)
    y = aligned()
    with pytest.raises(BindError, match="BIND-01"):
        chain.execute_async({1: y, 2: x})
    plan = chain.bind({1: y, 2: x, 3: w})
    pending = plan.submit()
    plan.close()
    with pytest.raises(BindError, match="closed"):
        plan.submit()
    pending.wait()
    near(y, wanted)


class Failing:
    """A semaphore of a run that failed."""

    def wait(self, value: int, timeout: int | None = None) -> bool:
        raise RuntimeError("a.c:1: ABORTED; the kernel was lost")

    query = wait


def test_a_run_that_fails_says_so_each_time_and_the_next_is_not_harmed(chain_case: Any) -> None:
    chain = chain_case.load("local-task")
    x, w, wanted = problem(8)
    y = aligned()
    plan = chain.bind({1: y, 2: x, 3: w})
    pending = Pending(chain.device, (Failing(), 1))
    assert pending.done
    for _ in range(2):
        with pytest.raises(DeviceError, match="ABORTED; the kernel was lost"):
            pending.wait()
    assert repr(pending) == "Pending(failed)"
    assert plan._parts is not None
    for call in (plan, lambda: plan.submit().wait()):
        plan._parts.in_flight.tail = (Failing(), 1)
        y[...] = np.nan
        call()
        near(y, wanted)


def test_the_time_may_run_out(chain_case: Any) -> None:
    device = chain_case.load("local-task").device
    semaphore = device.hal.create_semaphore(0)
    pending = Pending(device, (semaphore, 1))
    assert not pending.done
    assert not pending.wait(0.001)
    assert repr(pending) == "Pending()"
    semaphore.signal(1)
    assert pending.wait(300)


# --- execute_many -----------------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
def test_many_sets_run_in_order(chain_case: Any, driver: str) -> None:
    """The result of each set is an operand of the next; one of them is copied."""
    chain = chain_case.load(driver)
    x, w, _ = problem(9)
    odd = aligned_bytes(SIZE + 64)[8 : SIZE + 8].view(np.float32).reshape(48, 48)
    values = [x, aligned(), aligned(), odd, aligned(), aligned()]
    sets = [{1: b, 2: a, 3: w} for a, b in itertools.pairwise(values)]
    for _ in range(2):
        for value in values[1:]:
            value[...] = np.nan
        chain.execute_many(sets)
        wanted = x
        for value in values[1:]:
            wanted = wanted @ w @ w
            near(value, wanted)
    chain.execute_many([])
    space = aligned_bytes(chain.workspace_bytes)
    chain.execute_many(sets[:2], space)
    near(values[2], x @ w @ w @ w @ w)


@pytest.mark.parametrize("driver", DRIVERS)
def test_all_sets_are_checked_before_one_is_run(chain_case: Any, driver: str) -> None:
    chain = chain_case.load(driver)
    x, w, _ = problem(10)
    y = aligned()
    with pytest.raises(BindError, match=r"(?s)set 1: .*BIND-05") as caught:
        chain.execute_many([{1: y, 2: x, 3: w}, {1: aligned(), 2: x[:4], 3: w}])
    assert caught.value.problems
    assert np.isnan(y).all()


def test_more_sets_than_are_remembered(chain_case: Any) -> None:
    chain = chain_case.load("local-task", remember=4)
    problems = [problem(seed) for seed in range(20)]
    sets = [{1: aligned(), 2: x, 3: w} for x, w, _ in problems]
    chain.execute_many(sets)
    for buffers, (_, _, wanted) in zip(sets, problems, strict=True):
        near(buffers[1], wanted)
    assert len(chain._bound) == 4


def test_a_set_whose_run_goes_on_is_not_forgotten(chain_case: Any) -> None:
    """Otherwise the next run on its buffers would not come behind it."""
    chain = chain_case.load("local-task", remember=2)
    problems = [problem(seed) for seed in range(5)]
    sets = [{1: aligned(), 2: x, 3: w} for x, w, _ in problems]
    gate = chain.device.hal.create_semaphore(0)
    opened = Pending(chain.device, (gate, 1))
    first = chain.execute_async(sets[0], after=[opened])
    (plan,) = chain._bound.values()
    assert plan.busy
    for buffers in sets[1:]:
        chain.execute(buffers)
    assert plan in chain._bound.values()
    again = chain.execute_async(sets[0])
    assert not again.wait(0.01)
    gate.signal(1)
    assert first.wait(300)
    assert again.wait(300)
    assert not plan.busy
    chain.execute(sets[4])
    chain.execute({1: aligned(), 2: sets[1][1], 3: sets[1][3]})
    assert len(chain._bound) == 2
    near(sets[0][1], problems[0][2])


# --- workspaces -------------------------------------------------------------------------------


@pytest.fixture
def pool() -> WorkspacePool:
    return WorkspacePool(Device.open("local-sync"), keep=3)


def test_one_at_a_time_is_one_workspace_of_the_largest_size(pool: WorkspacePool) -> None:
    sizes = [100, 5000, 10, 70_000, 4096, 70_000, 1]
    for nbytes in sizes * 3:
        space = pool.acquire(nbytes)
        assert space.nbytes >= nbytes
        pool.release(space)
    assert pool.count == 1
    assert 70_000 <= pool.nbytes < 70_000 + 4096


def test_idle_workspaces_are_few_and_a_fitting_one_is_found(pool: WorkspacePool) -> None:
    spaces = [pool.acquire(n) for n in (10_000, 50_000, 20_000, 30_000, 8000)]
    assert pool.count == len({id(s) for s in spaces}) == 5
    for space in spaces:
        pool.release(space)
    assert pool.count == 3  # those that rested longest went
    assert pool.acquire(25_000) is spaces[3]
    assert pool.count == 3
    pool.trim()
    assert pool.count == 1


def test_lists_of_a_dropped_workspace_go(pool: WorkspacePool) -> None:
    space = pool.acquire(10)
    space.lists[1] = object()
    pool.release(space)
    pool.trim()
    assert not space.lists


def test_no_memory_is_said_after_the_idle_was_freed(pool: WorkspacePool) -> None:
    spaces = [pool.acquire(10) for _ in range(3)]
    for space in spaces:
        pool.release(space)
    with pytest.raises(DeviceError, match="no 4611686018427387904 bytes"):
        pool.acquire(1 << 62)
    assert pool.count == 0
    pool.release(pool.acquire(10))


def test_threads_never_share_a_workspace(pool: WorkspacePool) -> None:
    used: dict[int, int] = {}
    failures = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(3000):
            nbytes = rng.choice((10, 5000, 9000))
            space = pool.acquire(nbytes)
            if used.setdefault(id(space), seed) != seed or space.nbytes < nbytes:
                failures.append(seed)
            del used[id(space)]
            pool.release(space)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert pool.count <= 4


def test_workspaces_go_with_the_last_executable(chain_case: Any) -> None:
    device = Device.open("local-sync")
    device.close()
    chain = chain_case.load()
    x, w, wanted = problem(11)
    near(chain.run({2: x, 3: w})[1], wanted)
    alive = weakref.ref(pool_of(chain.device))
    del chain
    gc.collect()
    assert alive() is None


# --- streams ----------------------------------------------------------------------------------


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Streams of CUDA and HIP that only say that they were waited for."""
    said: list[str] = []

    def synchronizer(prefix: str) -> Any:
        def wait(stream: Any) -> int:
            said.append(f"{prefix} {stream.value or 0:#x}")
            return 0

        return wait

    library = SimpleNamespace(
        hipStreamSynchronize=synchronizer("hip"), cuStreamSynchronize=synchronizer("cuda")
    )
    monkeypatch.setattr(streams, "_library", lambda driver: library)
    return said


def on(driver: str, stream: int | None) -> Device:
    """Return a device of a GPU's driver that is local-task behind."""
    return Device(driver, 0, stream, None, Device.open("local-task").hal)


@pytest.mark.parametrize(
    ("driver", "stream", "asynchronous", "follows"),
    [
        ("hip", None, False, False),
        ("hip", 0x10, True, False),
        ("hip", 0, False, True),
        ("cuda", None, False, False),
        ("cuda", 0x10, False, True),
        ("cuda", 0, False, True),
    ],
)
def test_who_orders_the_work(
    driver: str, stream: int | None, asynchronous: bool, follows: bool
) -> None:
    device = on(driver, stream)
    assert (device.asynchronous, device.follows) == (asynchronous, follows)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hip and cuda take host memory, so that local-task can play them."""
    for name in ("hip", "cuda"):
        traits = device_module.DRIVERS[name]
        likeness = Driver(
            on_host=True,
            memory=(1,),
            needs="nothing",
            streams=traits.streams,
            stream_parameter=traits.stream_parameter,
        )
        monkeypatch.setitem(device_module.DRIVERS, name, likeness)


def loaded_on(device: Device, case: Any) -> Executable:
    uids = range(1, len(case.args) + 1)
    return Executable(LoadedModule.load(device, case.vmfb), case.signature, uids, case.names)


@pytest.mark.usefixtures("played")
def test_a_cuda_stream_is_waited_for_before_each_run(log: list[str], chain_case: Any) -> None:
    chain = loaded_on(on("cuda", 0x20), chain_case)
    x, w, wanted = problem(12)
    y = aligned()
    buffers = {1: y, 2: x, 3: w}
    plan = chain.bind(buffers)
    assert not log
    calls: list[Any] = [
        plan,
        lambda: plan.submit().wait(),
        lambda: chain.execute(buffers),
        lambda: chain.execute_async(buffers).wait(),
        lambda: chain.execute_many([buffers] * 5),
    ]
    for number, call in enumerate(calls):
        y[...] = np.nan
        call()
        near(y, wanted)
        assert log == ["cuda 0x20"] * (number + 1)


@pytest.mark.usefixtures("played")
def test_a_hip_stream_takes_the_work_and_is_looked_at_when_asked(
    log: list[str], chain_case: Any
) -> None:
    device = Device("hip", 0, 0x30, None, Device.open("local-sync").hal)
    chain = loaded_on(device, chain_case)
    x, w, wanted = problem(13)
    y = aligned()
    buffers = {1: y, 2: x, 3: w}
    pending = chain.bind(buffers).submit()
    assert repr(pending) == "Pending()"  # nobody has asked the stream
    assert pending.wait()
    near(y, wanted)
    y[...] = np.nan
    chain.execute_many([buffers, buffers])
    chain.execute_async(buffers, after=[pending]).wait()
    near(y, wanted)
    assert not log  # the order is the stream's: the host waits for nothing


def test_a_stream_that_cannot_be_waited_for(log: list[str], monkeypatch: Any) -> None:
    streams.synchronize("hip", 0x40)
    assert log == ["hip 0x40"]
    dead = SimpleNamespace(hipStreamSynchronize=lambda stream: 400)
    monkeypatch.setattr(streams, "_library", lambda driver: dead)
    with pytest.raises(DeviceError, match=r"hip stream 0x40 failed: .* returned 400"):
        streams.synchronize("hip", 0x40)


def test_a_thread_without_a_cuda_context_gets_the_primary_one(monkeypatch: Any) -> None:
    current: list[int] = []

    def retain(pointer: Any, number: int) -> int:
        pointer._obj.value = 0x77 + number
        return 0

    library = SimpleNamespace(
        cuStreamSynchronize=lambda stream: 0 if current else 201,
        cuDevicePrimaryCtxRetain=retain,
        cuCtxSetCurrent=lambda context: current.append(context.value) or 0,
    )
    monkeypatch.setattr(streams, "_library", lambda driver: library)
    streams.synchronize("cuda", 0, 1)
    assert current == [0x78]


def test_no_library_no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(streams._LIBRARIES, "hip", ("libnone_such.so",))
    streams._library.cache_clear()
    with pytest.raises(DeviceError, match=r"none of libnone_such\.so can be loaded"):
        streams.synchronize("hip", 1)


def test_what_a_stream_may_be() -> None:
    assert streams.handle(0x50) == 0x50
    assert streams.handle(SimpleNamespace(cuda_stream=7)) == 7
    assert streams.handle(SimpleNamespace(ptr=8)) == 8
    assert streams.handle(SimpleNamespace(__cuda_stream__=lambda: (0, 9))) == 9
    with pytest.raises(SettingError, match="got a list"):
        streams.handle([])


def test_devices_of_streams_go_with_their_users(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Any, ...]] = []
    hal = Device.open("local-sync").hal
    monkeypatch.setattr(device_module, "_create", lambda *about: made.append(about) or hal)
    one = Device.on_stream("cuda", 0x60)
    assert Device.on_stream("cuda", 0x60) is one
    assert Device.on_stream("cuda", 0x61) is not one
    del one
    gc.collect()
    Device.on_stream("cuda", 0x60)
    assert [about[2] for about in made] == [0x60, 0x61, 0x60]
