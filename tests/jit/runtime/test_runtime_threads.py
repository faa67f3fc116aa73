# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many threads, forks, 100,000 calls, streams and devices with memory of their own."""

from __future__ import annotations

import gc
import itertools
import resource
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.errors import BindError, DeviceError
from hipdnn_iree.jit.runtime import device as device_module
from hipdnn_iree.jit.runtime.arrays import aligned_bytes
from hipdnn_iree.jit.runtime.caller_memory import Pointer
from hipdnn_iree.jit.runtime.device import Device, Driver
from hipdnn_iree.jit.runtime.executable import Executable
from hipdnn_iree.jit.runtime.loaded_module import LoadedModule
from many_threads import in_threads

ROOT = Path(__file__).resolve().parents[3]
DRIVERS = ("local-sync", "local-task")


def problem(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x, w = (rng.standard_normal((48, 48), np.float32) for _ in range(2))
    return x, w, x @ w @ w


def smallest_growth(call: Callable[[], object], count: int) -> int:
    """Return the bytes that Python holds more after ``count`` calls: the least of four turns.

    A leak shows in each turn. What happens once does not: a dictionary of the interpreter that
    doubles, a free list that fills, the last plans that are remembered.
    """
    held: list[int] = []
    tracemalloc.start()
    try:
        for _ in range(5):
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
            for _ in range(count):
                call()
    finally:
        tracemalloc.stop()
    return min(after - before for before, after in itertools.pairwise(held))


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("how", ["bind", "execute", "run"])
def test_four_threads_with_their_own_buffers(chain_case: Any, driver: str, how: str) -> None:
    chain = chain_case.load(driver)

    def work(index: int) -> None:
        y = np.empty((48, 48), np.float32)
        plan = None
        for turn in range(30):
            x, w, wanted = problem(100 * index + turn % 3)
            y[...] = np.nan
            if how == "run":
                y = chain.run({2: x, 3: w})[1]
            elif how == "execute":
                chain.execute({1: y, 2: x, 3: w})
            else:
                plan = chain.bind({1: y, 2: x, 3: w})
                for _ in range(5):
                    plan()
            np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)

    in_threads(4, work)


def test_one_plan_in_many_threads_is_run_one_after_another(chain_case: Any) -> None:
    chain = chain_case.load("local-task")
    x, w, wanted = problem(1)
    memory = aligned_bytes(48 * 48 * 4 + 64)
    aligned = memory[: 48 * 48 * 4].view(np.float32).reshape(48, 48)
    staged = memory[4 : 4 + 48 * 48 * 4].view(np.float32).reshape(48, 48)
    for y in (aligned, staged):
        plan = chain.bind({1: y, 2: x, 3: w})
        in_threads(4, lambda _, plan=plan: [plan() for _ in range(200)])  # type: ignore[misc]
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)


def test_closing_while_others_run(chain_case: Any) -> None:
    """A running call keeps its workspace; nobody else gets it before the call ends."""
    chain = chain_case.load("local-task")
    x, w, wanted = problem(2)

    def work(index: int) -> None:
        y = np.empty((48, 48), np.float32)
        for _ in range(60):
            plan = chain.bind({1: y, 2: x, 3: w})
            other = threading.Thread(target=plan.close)
            other.start()
            y[...] = np.nan
            try:
                plan()
                np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)
            except BindError as error:
                assert "closed" in str(error)  # noqa: PT017  (a race: either is right)
            other.join()

    in_threads(3, work)


@pytest.mark.parametrize("staged", [False, True])
def test_a_hundred_thousand_calls_do_not_grow(relu: Executable, staged: bool) -> None:
    memory = aligned_bytes(192)
    start = 4 if staged else 0
    y = memory[start : start + 64].view(np.float32).reshape(4, 4)
    x = memory[128:].view(np.float32).reshape(4, 4)
    x[...] = 1
    plan = relu.bind({1: y, 2: x})
    assert bool(plan.staged) is staged

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    for _ in range(2000):
        plan()
    gc.collect()
    sizes = [resident()]
    for _ in range(4):
        for _ in range(25_000):
            plan()
        sizes.append(resident())
    # The least of four turns, as other threads take memory too: a leak of 6 bytes a call shows.
    assert min(after - before for before, after in itertools.pairwise(sizes)) < 128 * 1024
    plan()
    assert smallest_growth(plan, 5000) < 1024
    assert (y == 1).all()


def test_what_measures_growth_sees_a_leak() -> None:
    kept: list[bytearray] = []
    assert smallest_growth(lambda: kept.append(bytearray(32)), 500) > 500 * 32


def test_binding_and_executing_again_and_again_does_not_grow(chain_case: Any) -> None:
    chain = chain_case.load(remember=4)
    x, w, _ = problem(3)
    outputs = [np.empty((48, 48), np.float32) for _ in range(8)]

    turn = itertools.count()

    def call() -> None:
        y = outputs[next(turn) % 8]
        chain.bind({1: y, 2: x, 3: w})
        chain.execute({1: y.ctypes.data, 2: x, 3: w})

    for _ in range(1500):
        call()
    assert smallest_growth(call, 500) < 8 * 1024  # a leak of 17 bytes a call would show


FORKED = """
import os, sys
import numpy as np
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import DeviceError
from hipdnn_iree.jit.runtime.device import Device
from hipdnn_iree.jit.runtime.loaded_module import LoadedModule
from hipdnn_iree.jit.runtime.executable import Executable
from hipdnn_iree.jit.signature import ArgSpec, Signature
module = LoadedModule.load(Device.open(sys.argv[2]), open(sys.argv[1], "rb").read())
about = dict(data_type=DataType.FLOAT, dims=(4, 4), strides=(4, 1), shape=(4, 4))
args = (ArgSpec(output=True, **about), ArgSpec(output=False, **about))
executable = Executable(module, Signature(args=args), (1, 2))
buffers = {1: np.zeros((4, 4), np.float32), 2: np.ones((4, 4), np.float32)}
plan = executable.bind(buffers)
plan()
pid = os.fork()
if pid == 0:
    refused = 0
    for use in (plan, lambda: executable.bind(buffers), lambda: executable.execute(buffers)):
        try:
            use()
        except DeviceError:
            refused += 1
    plan.close()
    sys.exit(10 + refused)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 13
plan()
print("parent goes on")
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_plan_in_a_forked_child_is_refused(relu_case: Any, tmp_path: Path, driver: str) -> None:
    path = tmp_path / "relu.vmfb"
    path.write_bytes(relu_case.vmfb)
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(path), driver],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "parent goes on\n", "")


# --- devices that this machine does not have, played by local-sync ---------------------------


def loaded_on(device: Device, case: Any) -> Executable:
    uids = range(1, len(case.args) + 1)
    return Executable(LoadedModule.load(device, case.vmfb), case.signature, uids, case.names)


def test_a_stream_device_enqueues_the_asynchronous_function(chain_case: Any) -> None:
    """local-sync does the work before it returns, so that the result can be looked at."""
    host = Device.open("local-sync")
    device = Device("local-sync", 0, 0x1000, None, host.hal)
    assert device.asynchronous
    chain = loaded_on(device, chain_case)
    x, w, wanted = problem(4)
    y = aligned_bytes(48 * 48 * 4).view(np.float32).reshape(48, 48)
    plan = chain.bind({1: y, 2: x, 3: w})
    for _ in range(3):
        y[...] = np.nan
        plan()
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    """A device that takes no host memory: everything goes over by transfers."""
    traits = Driver(on_host=False, memory=(10, 11), needs="nothing")
    monkeypatch.setitem(device_module.DRIVERS, "gpu", traits)
    return Device("gpu", 0, None, None, Device.open("local-sync").hal)


@pytest.mark.parametrize("stream", [None, 0x1000])
def test_host_arrays_are_carried_to_a_gpu(gpu: Device, layout_case: Any, stream: Any) -> None:
    device = Device("gpu", 0, stream, None, gpu.hal)
    executable = loaded_on(device, layout_case)
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 3, 4, 5), np.float32)  # not even in NHWC
    a, row, q = (rng.standard_normal(d, np.float32) for d in ((4, 6), (1, 6), (2, 6)))
    made = executable.run({4: x, 5: a, 6: row, 7: q})
    np.testing.assert_array_equal(made[1], np.maximum(x, 0))
    np.testing.assert_array_equal(made[2], a + row)
    np.testing.assert_array_equal(made[3], np.maximum(q, 0))
    buffers = {**made, 4: x, 5: a, 6: row, 7: q}
    with pytest.raises(BindError) as caught:
        executable.bind(buffers)
    assert {p.rule for p in caught.value.problems} >= {"BIND-12"}
    plan = executable.bind(buffers, copy=True)
    assert len(plan.staged) == 7
    x *= -1
    plan()
    np.testing.assert_array_equal(made[1], np.maximum(x, 0))


def test_gpu_addresses_are_used_in_place(gpu: Device, relu_case: Any) -> None:
    executable = loaded_on(gpu, relu_case)
    memory = aligned_bytes(128)
    y, x = memory[:64].view(np.float32), memory[64:].view(np.float32)
    x[:] = np.arange(-8, 8)
    plan = executable.bind({1: y.ctypes.data, 2: Pointer(x.ctypes.data, 64)})
    assert plan.staged == ()
    plan()
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    with pytest.raises(BindError, match="BIND-13"):
        executable.bind({1: y.ctypes.data, 2: x.ctypes.data + 4})


def test_no_memory_is_a_device_error() -> None:
    from hipdnn_iree.jit.runtime.device_memory import allocate

    with pytest.raises(DeviceError, match="no 4611686018427387904 bytes of memory on local-sync"):
        allocate(Device.open("local-sync"), 1 << 62)
