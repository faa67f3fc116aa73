# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which device serves: decided from what HIP says, and never the CPU by mistake."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import DeviceError
from hipdnn_iree.graph_api.formats.flatbuffer.engine_messages import EngineConfig, encode_config
from hipdnn_iree.hipdnn_plugin import devices
from hipdnn_iree.hipdnn_plugin.devices import CPU, Place, place_of
from hipdnn_iree.hipdnn_plugin.plugin import Plugin
from hipdnn_iree.hipdnn_plugin.serving import ENGINE_ID
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.plugin_abi import ConstData


def place(stream: int) -> Place:
    return place_of(stream, settings().plugin_device)


GRAPH = (Path(__file__).parents[1] / "data" / "opgraphs" / "pw_relu_all.bin").read_bytes()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    devices._gpus.cache_clear()
    devices._target.cache_clear()
    yield
    devices._gpus.cache_clear()
    devices._target.cache_clear()


class Hip:
    """Stands for HIP: some devices, and streams by number of their device."""

    def __init__(self, *archs: str) -> None:
        self.archs = archs
        self.asked: list[str] = []

    def __call__(self, function: str, *arguments: Any) -> Any:
        self.asked.append(function)
        if function == "hipGetDeviceCount":
            return len(self.archs)
        if function == "hipStreamGetDevice":
            return arguments[0] % 16
        if function == "hipGetDevice":
            return 0
        if function == "hipGetDeviceProperties":
            return SimpleNamespace(gcnArchName=self.archs[arguments[0]].encode())
        raise AssertionError(function)


@pytest.fixture
def hip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that puts GPUs into the machine."""

    def put(*archs: str) -> Hip:
        found = Hip(*archs)
        (tmp_path / "kfd").touch()
        monkeypatch.setattr(devices, "KERNEL_DRIVER", str(tmp_path / "kfd"))
        monkeypatch.setattr(devices, "_hip", found)
        return found

    return put


def test_no_kernel_driver_no_question(
    monkeypatch: pytest.MonkeyPatch, hip: Any, tmp_path: Path
) -> None:
    found = hip("gfx942")
    monkeypatch.setattr(devices, "KERNEL_DRIVER", str(tmp_path / "none"))
    assert place(0) == place(0x1000) == CPU
    assert found.asked == []


def test_target_is_that_of_the_streams_device(hip: Any) -> None:
    hip("gfx90a:sramecc+:xnack-", "gfx942:sramecc+:xnack-")
    first, second = place(0x1000), place(0x2001)
    assert (str(first.target), first.device_id, first.stream) == ("gfx90a:sramecc+:xnack-", 0, 4096)
    assert (second.target.arch, second.device_id) == ("gfx942", 1)
    assert (place(0).device_id, place(0).stream) == (0, 0)


def test_driver_without_devices_is_the_cpu(hip: Any) -> None:
    hip()
    assert place(0) == CPU


def test_a_gpu_that_cannot_be_used_is_not_the_cpu(
    monkeypatch: pytest.MonkeyPatch, hip: Any, tmp_path: Path
) -> None:
    hip("gfx1100")
    with pytest.raises(DeviceError, match="gfx1100; code is made for gfx908"):
        place(0)
    monkeypatch.setenv("HIPDNN_IREE_PLUGIN_DEVICE", "cpu")
    assert place(0) == CPU


def test_hip_asked_for_and_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hip-python as it is: ROCm is not installed, or finds no device."""
    monkeypatch.setenv("HIPDNN_IREE_PLUGIN_DEVICE", "hip")
    with pytest.raises(DeviceError, match="HIP"):
        place(0)


def test_errors_of_hip_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As hip-python gives them: a status, then results."""
    import enum

    class Status(enum.IntEnum):
        hipSuccess = 0  # noqa: N815
        hipErrorNoDevice = 100  # noqa: N815
        hipErrorInvalidHandle = 400  # noqa: N815

    answers: dict[str, Any] = {
        "hipGetDeviceCount": (Status.hipErrorNoDevice, 0),
        "hipStreamGetDevice": (Status.hipErrorInvalidHandle, 0),
        "hipGetDevice": (Status.hipSuccess, 3),
    }
    hip = SimpleNamespace(**{n: lambda *_, a=a: a for n, a in answers.items()})
    monkeypatch.setitem(sys.modules, "hip", SimpleNamespace(hip=hip))
    assert devices._hip("hipGetDeviceCount") == 0
    assert devices._hip("hipGetDevice") == 3
    with pytest.raises(DeviceError, match="hipStreamGetDevice failed: hipErrorInvalidHandle"):
        devices._hip("hipStreamGetDevice", 5)
    with pytest.raises(DeviceError, match="HIPDNN_IREE_PLUGIN_DEVICE=cpu"):
        devices._hip("hipThatIsMissing")


def test_a_streams_device_lives_as_long_as_its_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    import gc

    from hipdnn_iree.jit.runtime.device import Device
    from hipdnn_iree.provider.engines.iree.iree_plan import open_device

    opened: list[tuple[str, int, int]] = []

    class Opened:
        def close(self) -> None:
            pass

    def stand_in(driver: str, *, device_id: int, stream: int) -> Any:
        opened.append((driver, device_id, stream))
        return Opened()

    monkeypatch.setattr(Device, "open", stand_in)
    first = open_device("hip", 0, 1, 0x10)
    assert open_device("hip", 0, 1, 0x10) is first
    assert open_device("hip", 0, 1, 0x20) is not first
    assert opened == [("hip", 1, 0x10), ("hip", 1, 0x20)]
    del first
    gc.collect()
    open_device("hip", 0, 1, 0x10)
    assert len(opened) == 3


def memory(data: bytes) -> tuple[Any, int]:
    buffer = ctypes.create_string_buffer(data, len(data))
    return (buffer, found := ConstData(ctypes.addressof(buffer), len(data))), ctypes.addressof(
        found
    )


def test_broken_gpu_serves_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HIPDNN_IREE_PLUGIN_DEVICE", "hip")
    plugin, handle, count = Plugin(), ctypes.c_void_p(), ctypes.c_uint32(9)
    ids = (ctypes.c_int64 * 1)()
    plugin.create(ctypes.addressof(handle))
    held, graph = memory(GRAPH)
    plugin.get_applicable_engine_ids(
        handle.value, graph, ctypes.addressof(ids), 1, ctypes.addressof(count)
    )
    assert count.value == 0
    assert "DEPLOY-26: HIP cannot be used, so no graph is served" in caplog.text
    config_held, config = memory(encode_config(EngineConfig(engine_id=ENGINE_ID)))
    context = ctypes.c_void_p(5)
    with pytest.raises(DeviceError):
        plugin.create_execution_context(handle.value, config, graph, ctypes.addressof(context))
    assert not context.value
    del held, config_held


def test_gpu_graph_compiles_and_fails_cleanly_without_one(hip: Any) -> None:
    """All of the way to the driver, which finds no device on this machine."""
    from hipdnn_iree.jit.runtime.device import Device

    try:
        Device.open("hip")
    except DeviceError:
        pass
    else:
        pytest.skip("there is an AMD GPU here")
    hip("gfx942:sramecc+:xnack-")
    plugin, handle, count = Plugin(), ctypes.c_void_p(), ctypes.c_uint32()
    plugin.create(ctypes.addressof(handle))
    plugin.set_stream(handle.value, 0x1000)
    held, graph = memory(GRAPH)
    config_held, config = memory(encode_config(EngineConfig(engine_id=ENGINE_ID)))
    plugin.get_applicable_engine_ids(handle.value, graph, None, 0, ctypes.addressof(count))
    assert count.value == 1
    size, context = ctypes.c_size_t(), ctypes.c_void_p(5)
    plugin.get_workspace_size(handle.value, config, graph, ctypes.addressof(size))
    with pytest.raises(DeviceError, match="no hip device here"):
        plugin.create_execution_context(handle.value, config, graph, ctypes.addressof(context))
    assert not context.value
    plugin.destroy(handle.value)
    del held, config_held
