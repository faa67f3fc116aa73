# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Devices: one per key, honest errors, worker count, forks, threads."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hipdnn_iree.graph_api.errors import DeviceError, SettingError
from hipdnn_iree.jit.runtime import device as device_module
from hipdnn_iree.jit.runtime.device import Device

ROOT = Path(__file__).resolve().parents[3]


def child(code: str, *arguments: str) -> str:
    """Run code in a new interpreter and return its output; a crash or a hang fails the test."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_a_device_is_opened_once_also_by_many_threads() -> None:
    found: list[Device] = []
    barrier = threading.Barrier(8)

    def open_it() -> None:
        barrier.wait()
        found.append(Device.open("local-sync"))

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    assert found[0].on_host
    assert not found[0].asynchronous
    assert repr(found[0]) == "Device('local-sync', device_id=0)"


def test_the_two_cpu_drivers_share_the_instance() -> None:
    sync, task = Device.open("local-sync"), Device.open("local-task")
    assert sync is not task
    assert sync.instance is task.instance


def test_a_closed_device_is_made_anew() -> None:
    first = Device.open("local-sync")
    first.close()
    second = Device.open("local-sync")
    assert second is not first
    first.close()  # no longer the one in use: nothing happens
    assert Device.open("local-sync") is second


def test_unknown_driver_and_bad_worker_count() -> None:
    with pytest.raises(SettingError, match="known: local-sync, local-task, hip, cuda"):
        Device.open("vulkan")
    with pytest.raises(SettingError, match="workers: got 0"):
        Device.open("local-task", workers=0)


def test_no_such_device_number() -> None:
    with pytest.raises(DeviceError, match="no local-sync device 7; devices here: 0: default"):
        Device.open("local-sync", device_id=7)


@pytest.mark.parametrize("driver", ["local-sync", "local-task"])
def test_a_stream_where_the_driver_takes_none(driver: str) -> None:
    with pytest.raises(DeviceError, match="takes no external stream, got 0x1234"):
        Device.open(driver, stream=0x1234)


@pytest.mark.parametrize(("driver", "library"), [("hip", "libamdhip64.so"), ("cuda", "libcuda.so")])
def test_a_gpu_driver_opens_or_says_what_it_needs(driver: str, library: str) -> None:
    from iree.runtime import get_driver

    try:
        found = get_driver(driver).query_available_devices()
    except RuntimeError:
        found = []
    if found:
        assert not Device.open(driver).on_host
        return
    with pytest.raises(DeviceError, match=f"no {driver} device.* needs .*{library}") as caught:
        Device.open(driver)
    assert "\n" not in str(caught.value)


WORKERS = """
import time
from pathlib import Path
from hipdnn_iree.graph_api.errors import DeviceError
from hipdnn_iree.jit.runtime.device import Device
device = Device.open("local-task", workers=1)
assert device.workers == 1
deadline = time.monotonic() + 120  # a thread names itself some time after it starts
while time.monotonic() < deadline:
    names = [(t / "comm").read_text().strip() for t in Path("/proc/self/task").iterdir()]
    if any(n.startswith("iree-worker") for n in names):
        break
    time.sleep(0.01)
assert sum(n.startswith("iree-worker") for n in names) == 1, names
assert Device.open("local-task") is device
assert Device.open("local-task", workers=1) is device
assert Device.open("local-sync", workers=9).workers is None
try:
    Device.open("local-task", workers=2)
except DeviceError as error:
    print(error)
"""


def test_the_first_worker_count_counts() -> None:
    assert "already runs with 1 worker threads" in child(WORKERS)


def test_a_worker_count_after_a_default_opening_is_refused() -> None:
    code = """
from hipdnn_iree.graph_api.errors import DeviceError
from hipdnn_iree.jit.runtime.device import Device
Device.open("local-task")
try:
    Device.open("local-task", workers=1)
except DeviceError as error:
    print(error)
"""
    assert "already runs with one per core worker threads" in child(code)


FORKED = """
import os, sys
from hipdnn_iree.graph_api.errors import DeviceError
from hipdnn_iree.jit.runtime.device import Device
device = Device.open(sys.argv[1])
pid = os.fork()
if pid == 0:
    for use in (device.check, lambda: Device.open(sys.argv[1]), lambda: Device.open("hip")):
        try:
            use()
        except DeviceError as error:
            assert "forked" in str(error)
        else:
            os._exit(1)
    sys.exit(7)  # the ordinary way out, which frees everything
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
device.check()
print("parent goes on")
"""


@pytest.mark.parametrize("driver", ["local-sync", "local-task"])
def test_a_forked_child_is_refused_and_can_exit(driver: str) -> None:
    assert child(FORKED, driver) == "parent goes on\n"


def test_fork_before_the_first_device_is_fine() -> None:
    code = """
import os
from hipdnn_iree.jit.runtime.device import Device
pid = os.fork()
Device.open("local-task").check()
if pid:
    assert os.waitpid(pid, 0)[1] == 0
    print("both")
"""
    assert child(code) == "both\n"


def test_importing_loads_neither_numpy_nor_iree() -> None:
    code = """
import sys
from hipdnn_iree.jit.runtime import arrays, binding_rules, caller_memory, device, device_memory
from hipdnn_iree.jit.runtime import executable, loaded_module
print(sorted({"numpy", "iree", "ml_dtypes", "torch_mlir"} & set(sys.modules)))
"""
    assert child(code) == "[]\n"


def test_reason_is_one_short_line() -> None:
    text = "a:\n  c/runtime/src/x/y.c:155: UNAVAILABLE; " + "z" * 999
    said = device_module.reason(RuntimeError(text))
    assert said.startswith("a: UNAVAILABLE; zzz")
    assert said.endswith("...")
    assert len(said) == 300
    listed = RuntimeError("UNAVAILABLE; no 'libx.so': Tried: libx.so NOT_FOUND; a: b")
    assert device_module.reason(listed) == "UNAVAILABLE; no 'libx.so'"
