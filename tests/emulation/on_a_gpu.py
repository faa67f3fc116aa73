# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every way to run something on an AMD GPU, on two emulated ones; `test_gpu_path.py` starts it.

It has a process of its own, as a process has one library of HIP.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import BindError, DeviceError, HipdnnIreeError, SettingError
from hipdnn_iree.hipdnn_plugin.library import LIBRARY as PLUGIN
from hipdnn_iree.jit.runtime.hip import call
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.artifacts.artifact import load_artifact
from hipdnn_iree.provider.artifacts.save import save_artifact
from hipdnn_iree.provider.cli.app import app
from hipdnn_iree.provider.emulated import emulated
from hipdnn_iree.provider.engines.foreign.discovery import open_plugin

Array = npt.NDArray[Any]
ROWS, INNER, COLUMNS = 37, 72, 29


def graph() -> Graph:
    """y = relu(x·w + b), with extents that fit no tile."""
    g = Graph("dense", io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(ROWS, INNER), name="x", uid=1)
    w = g.tensor(dims=(INNER, COLUMNS), name="w", uid=2)
    b = g.tensor(dims=(1, COLUMNS), name="b", uid=3)
    g.relu(g.add(g.matmul(x, w), b)).set_output().set_name("y").set_uid(4)
    return g


def gpu(function: str, *arguments: Any) -> Any:
    return call(function, *arguments, instead="")


class OnDevice:
    """An array in the memory of a device, handed over through DLPack."""

    def __init__(self, array: Array, device: int = 0) -> None:
        gpu("hipSetDevice", device)
        self.like, self.device = np.ascontiguousarray(array), device
        self.address = int(gpu("hipMalloc", array.nbytes))
        gpu("hipSetDevice", 0)
        ctypes.memmove(self.address, self.like.ctypes.data, array.nbytes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (10, self.device)

    def __dlpack__(self, **_: Any) -> Any:
        capsule = self.like.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        head = pointer(capsule, b"dltensor")  # data, then type and number of the device
        ctypes.c_uint64.from_address(head).value = self.address
        (ctypes.c_int32 * 2).from_address(head + 8)[:] = (10, self.device)
        return capsule

    def values(self) -> Array:
        found = np.empty_like(self.like)
        ctypes.memmove(found.ctypes.data, self.address, found.nbytes)
        return found


@pytest.fixture(scope="module")
def library() -> Iterator[Any]:
    with emulated("gfx942", devices=2) as found:
        yield found


@pytest.fixture(scope="module")
def plan(library: Any) -> Any:
    return graph().build("gfx942")


INPUTS = verify.random_inputs(graph().freeze(), 3)
EXPECTED = verify.expect(graph().freeze(), INPUTS)


def check(results: Any) -> None:
    report = verify.compare(graph().freeze(), {4: results}, EXPECTED)
    assert report.ok, report.outputs


def poisoned() -> Array:
    return np.full((ROWS, COLUMNS), np.nan, np.float16)


def on_device(number: int = 0) -> dict[Any, Any]:
    held = {uid: OnDevice(array, number) for uid, array in INPUTS.items()}
    return {**held, 4: OnDevice(poisoned(), number)}


def test_run_takes_host_arrays(library: Any, plan: Any) -> None:
    before = library.launches
    check(plan.run(INPUTS)["y"])
    assert library.launches > before


def test_host_arrays_are_copied_when_asked_for(plan: Any) -> None:
    y, x = poisoned(), INPUTS[1].copy()
    buffers = {**INPUTS, 1: x, 4: y}
    with pytest.raises(BindError, match="BIND-12"):
        plan.execute(buffers)
    with pytest.raises(BindError, match="BIND-12"):
        plan.bind(buffers)
    bound = plan.bind(buffers, copy=True)
    bound()
    check(y)
    x[:] = 0
    bound.resident()  # what is timed: no copy from the host, nor to it
    check(y)
    bound()
    assert (y == np.maximum(INPUTS[3], 0)).all()


def test_device_arrays(plan: Any) -> None:
    buffers = on_device()
    plan.execute(buffers)
    check(buffers[4].values())
    assert not plan.bind(buffers).staged
    elsewhere = on_device(1)
    with pytest.raises(BindError, match=r"BIND-12.*10:1"):
        plan.execute(elsewhere)
    assert np.isnan(elsewhere[4].values()).all()


def test_addresses(plan: Any) -> None:
    buffers = on_device()
    addresses = {uid: held.address for uid, held in buffers.items()}
    plan.execute(addresses)
    check(buffers[4].values())
    misaligned = {**addresses, 1: addresses[1] + 2}
    with pytest.raises(BindError, match="BIND-13"):
        plan.execute(misaligned)


def test_memory_of_nobody_is_an_error_and_the_process_goes_on(library: Any) -> None:
    plan: Any = graph().build("gfx942", device_id=1)
    buffers = on_device(1)
    lost = {uid: held.address for uid, held in buffers.items()}
    lost[2] = INPUTS[2].ctypes.data & -64  # as if host arrays were given by address
    with pytest.raises(DeviceError, match="is outside every allocation") as caught:
        plan.execute(lost)
    assert "main$async_dispatch_0" in str(caught.value), caught.value
    with pytest.raises(DeviceError):  # the device has failed, as a real one
        plan.run(INPUTS)
    check(graph().build("gfx942", device_id=1).run(INPUTS)["y"])


def test_a_module_may_launch_kernels_while_it_is_loaded(library: Any) -> None:
    """A range that several kernels read is made once; IREE waits for it with Python's lock."""
    g = Graph("ranges", io_data_type="float")
    x = g.tensor(dims=(33, 40), name="x", uid=1)
    index = g.gen_index(x, axis=1)
    turned = g.transpose(g.mul(x, index), (1, 0))
    g.matmul(g.add(x, index), turned).set_output().set_uid(2)
    graph, plan = g.freeze(), g.build("gfx942")
    inputs = verify.random_inputs(graph, 1)
    before = library.launches
    found = plan.run(inputs)
    first = library.launches - before
    report = verify.compare(graph, {2: next(iter(found.values()))}, verify.expect(graph, inputs))
    assert report.ok, report.outputs
    plan.run(inputs)
    assert library.launches - before < 2 * first  # else nothing was launched by loading


def test_started_runs(plan: Any) -> None:
    first, second = on_device(), on_device()
    one = plan.execute_async(first)
    plan.execute_async(second, after=[one]).wait()
    check(first[4].values())
    check(second[4].values())
    third = on_device()

    async def awaited() -> None:
        await plan.execute_async(third)

    asyncio.run(awaited())
    check(third[4].values())
    many = [on_device(), on_device()]
    plan.execute_many(many)
    for buffers in many:
        check(buffers[4].values())


def test_the_other_device(plan: Any, library: Any) -> None:
    other: Any = graph().build("gfx942", device_id=1)
    assert other.device_id == 1
    buffers = on_device(1)
    other.execute(buffers)
    check(buffers[4].values())
    check(other.run(INPUTS)["y"])
    with pytest.raises(DeviceError, match="no hip device 2"):
        graph().build("gfx942", device_id=2).run(INPUTS)
    with scope(runtime_device=1):
        assert graph().build("gfx942").device_id == 1  # type: ignore[attr-defined]


def test_a_stream_says_which_device(plan: Any) -> None:
    gpu("hipSetDevice", 1)
    stream = gpu("hipStreamCreate")
    gpu("hipSetDevice", 0)
    placed = plan.on_stream(stream)
    assert (placed.device_id, plan.device_id) == (1, 0)
    buffers = on_device(1)
    placed.execute(buffers)
    gpu("hipStreamSynchronize", stream)
    check(buffers[4].values())
    again = on_device(1)
    plan.execute_async(again, stream=stream).wait()
    check(again[4].values())
    with pytest.raises(BindError, match="BIND-12"):
        plan.execute(on_device(0), stream=stream)
    default = on_device()
    plan.execute(default, stream=0)
    check(default[4].values())
    plan.forget_stream(stream)
    del placed
    gpu("hipStreamDestroy", stream)
    with pytest.raises(DeviceError, match="live stream"):
        plan.on_stream(int(stream))


def test_sizes_that_are_known_late(library: Any) -> None:
    g = Graph("late", io_data_type="float")
    x = g.tensor(dims=(g.dynamic("n", range=(1, 64), example=8), 5), name="x", uid=1)
    g.exp(x).set_output().set_uid(2)
    for how in ({}, {"buckets": 16}, {"exact": True}):
        plan = g.build("gfx942", **how)  # type: ignore[arg-type]
        for n in (3, 17):
            value = np.linspace(-2, 2, 5 * n, dtype=np.float32).reshape(n, 5)
            (found,) = plan.run({1: value}).values()
            np.testing.assert_allclose(found, np.exp(value), rtol=1e-5)


def test_artifacts(plan: Any, tmp_path: Path) -> None:
    save_artifact(tmp_path / "dense.hipdnn", plan)
    found: Any = load_artifact(tmp_path / "dense.hipdnn").plan("gfx942")
    check(found.run(INPUTS)["y"])
    check(found.on_device(1).run(INPUTS)["y"])


def test_code_for_another_gpu(library: Any) -> None:
    with pytest.raises(HipdnnIreeError, match="code for gfx90a, and the device is gfx942"):
        graph().build("gfx90a").run(INPUTS)


def test_the_plugin_serves_a_stream_of_device_1(library: Any) -> None:
    """Through its C interface, as an engine of others with device memory."""
    gpu("hipSetDevice", 1)
    try:
        (engine,) = open_plugin(PLUGIN.find(settings()), settings())
        assert engine.targets() == ("gfx942:sramecc+:xnack-",)
        frozen, target = graph().freeze(), Target.parse("mi300x")
        assert engine.declines(frozen, target) == []
        found: Any = engine.build(frozen, target)
        check(found.run(INPUTS)[4])
        buffers = on_device(1)
        found.execute({uid: held.address for uid, held in buffers.items()})
        check(buffers[4].values())
        with pytest.raises(BindError, match="BIND-12"):
            found.execute({**INPUTS, 4: poisoned()})
    finally:
        gpu("hipSetDevice", 0)


def cli(*words: object) -> Any:
    found = CliRunner().invoke(app, list(map(str, words)), prog_name="hipdnn-iree")
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    graph().save(tmp_path / "dense.json")
    return tmp_path / "dense.json"


@pytest.mark.parametrize("number", [0, 1])
def test_command_run(library: Any, file: Path, number: int) -> None:
    words = ("run", file, "--target", "gfx942", "--device", number, "--verify")
    found = json.loads(cli(*words, "--json").stdout)
    assert (found["verified"], found["emulated"], found["driver"]) == (True, True, "hip")
    assert found["execute_s"] is None
    assert found["execute"] is None
    if not number:
        text = cli(*words).stdout
        assert "emulated; there are no times" in text
        assert "verified by emulation" in text


def test_command_tune(library: Any, file: Path, tmp_path: Path) -> None:
    with scope(engine_winners=str(tmp_path / "winners.json")):
        words = ("tune", file, "--target", "gfx942", "--engines", "iree", "--json")
        found = cli(*words, "--knob", "opt_level=O2")
    assert not found.exit_code, found.output
    (row,) = json.loads(found.stdout)["graphs"]
    assert (row["emulated"], row["winner"], row["stored"]) == (True, None, False)
    assert {one["status"] for one in row["rows"]} <= {"ok", "same"}
    assert all(one["median_us"] is None for one in row["rows"])
    assert not (tmp_path / "winners.json").exists()


def test_commands_without_times(library: Any, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text("cases: [{name: a, op: relu, x: [2, 3]}]\n")
    found = cli("bench", tmp_path / "suite.yaml", "--target", "gfx942")
    assert found.exit_code == 2
    assert "emulation has no times" in found.stderr


def test_only_amd_gpus_are_emulated(file: Path) -> None:
    with pytest.raises(SettingError, match="sm_80 is no AMD GPU"), emulated("sm_80"):
        pass
    found = cli("run", file, "--target", "cpu", "--emulate")
    assert found.exit_code == 2
    assert "--emulate" in found.stderr
