# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What C calls: factories with their devices and memory, and the providers of sessions.

A factory, a provider and a fused node are known by the addresses of their structures, which C
makes and frees.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable
from ctypes import c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

from ...graph_api.errors import DeviceError
from ...jit.runtime.hip import KERNEL_DRIVER, call, emulated, target_of
from ...jit.settings import settings
from ...jit.target import Target
from ..offload.memory import GpuMemory
from .abi import VENDOR_ID, Code, EpTable, OrtFunctions, RefusedError
from .ort_graph import read_graph
from .session import Device, Session

__all__ = ["VIRTUAL", "Factories"]

log = logging.getLogger("hipdnn_iree.onnx")

VIRTUAL = ".virtual"
"""A registration name that ends so asks for the devices that exist anywhere."""

_CPU, _GPU = 0, 1
_INSTEAD = "the provider's CPU device needs no GPU"
_HOST = -1  # who waits for an event, in place of a stream


class _FactoryHead(ctypes.Structure):
    """``struct factory`` of ``native/ep.c``."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("functions", c_void_p * 13),
        ("api", c_void_p),
        ("ep_api", c_void_p),
        ("own_name", ctypes.c_char_p),
        ("gpus", c_uint64),
    )


class _Factory:
    def __init__(self, address: int, ort: OrtFunctions, name: str) -> None:
        self.head = _FactoryHead.from_address(address)
        self.address, self.ort, self.name = address, ort, name
        self.virtual = name.endswith(VIRTUAL)
        self.devices: dict[int, Device] = {}  # by the host's address of the hardware
        self.memories: dict[int, GpuMemory] = {}
        self.infos: dict[int, int] = {}  # what ONNX Runtime calls a GPU's memory
        self.made: list[int] = []  # hardware devices that exist anywhere
        self.alive: list[Any] = []  # HIP's objects


class Factories:
    """All factories and sessions of a process.

    Parameters
    ----------
    table : EpTable
        Of the library.
    """

    def __init__(self, table: EpTable) -> None:
        self._table = table
        self._factories: dict[int, _Factory] = {}
        self._sessions: dict[int, Session] = {}
        self._nodes: dict[int, object] = {}
        self._hip_objects: dict[int, Any] = {}

    # ------------------------------------------------------------------ factories

    def create_factory(self, address: int, api: int, base: int, name: str) -> None:
        """``CreateEpFactories``: devices are asked for later."""
        self._factories[address] = _Factory(address, OrtFunctions(api, base), name)

    def release_factory(self, address: int) -> None:
        """``ReleaseEpFactory``; memory that ONNX Runtime still has goes with its last block."""
        own = self._factories.pop(address)
        for info in own.infos.values():
            own.ort.plain("ReleaseMemoryInfo", info)
        for device in own.made:
            own.ort.plain("ReleaseHardwareDevice", device)
        for memory in own.memories.values():
            memory.trim()

    def supported_devices(
        self, address: int, devices: int, count: int, out: int, most: int, found: int
    ) -> None:
        """``GetSupportedDevices``: AMD GPUs that HIP has, and what the name asks for."""
        own = self._factories[address]
        given = (c_void_p * count).from_address(devices) if count else ()
        offers: list[tuple[int, Device]] = []
        gpus = [d or 0 for d in given if _is_amd_gpu(own, d or 0)]
        wanted = gpus or (own.virtual and own.ort.newer)
        count_here = self._gpus() if wanted else 0
        if own.virtual and own.ort.newer:  # of a container, say, in which only HIP sees them
            gpus += [self._unlisted(own) for _ in range(count_here - len(gpus))]
        for number, hardware in enumerate(gpus[:count_here]):
            offers.append((hardware, self._gpu(own, number)))
        for hardware in (d or 0 for d in given):
            if own.ort.plain("HardwareDevice_Type", hardware) == _CPU:
                offers.append((hardware, Device(Target.parse("cpu"))))
                break
        if own.virtual and own.ort.newer:
            offers += [self._virtual(own, arch) for arch in ("gfx942",)]
        result = (c_void_p * most).from_address(out)
        size = c_size_t.from_address(found)
        for hardware, device in offers[:most]:
            own.devices[hardware] = device
            result[size.value] = self._offer(own, hardware, device)
            size.value += 1

    def _gpus(self) -> int:
        if not (os.path.exists(KERNEL_DRIVER) or _HIP_WITHOUT_DRIVER or emulated()):
            return 0
        try:
            return int(call("hipGetDeviceCount", instead=_INSTEAD))
        except DeviceError as error:
            log.error("AMD GPUs cannot be used: %s", error)
            return 0

    def _gpu(self, own: _Factory, number: int) -> Device:
        target = target_of(number, call("hipGetDeviceProperties", number, instead=_INSTEAD))
        own.memories[number] = GpuMemory(number)
        own.infos[number] = own.ort.pointer(
            "CreateMemoryInfo_V2", b"hipdnn_iree", _GPU, VENDOR_ID, number, 0, 0, 0
        )
        own.head.gpus |= 1 << number
        return Device(target, number, own.memories[number])

    def _unlisted(self, own: _Factory) -> int:
        pairs = own.ort.new_pairs({"listed_by": "hip"})
        hardware = own.ort.pointer("CreateHardwareDevice", _GPU, VENDOR_ID, 0, b"AMD", pairs)
        own.ort.plain("ReleaseKeyValuePairs", pairs)
        own.made.append(hardware)
        return hardware

    def _virtual(self, own: _Factory, arch: str) -> tuple[int, Device]:
        pairs = own.ort.new_pairs({"is_virtual": "1", "target": arch})
        hardware = own.ort.pointer("CreateHardwareDevice", _GPU, VENDOR_ID, 0x74A1, b"AMD", pairs)
        own.ort.plain("ReleaseKeyValuePairs", pairs)
        own.made.append(hardware)
        return hardware, Device(Target.parse(arch), virtual=True)

    def _offer(self, own: _Factory, hardware: int, device: Device) -> int:
        metadata = own.ort.new_pairs(device.metadata())
        options = own.ort.new_pairs({"device_id": str(device.number)} if device.memory else {})
        made = own.ort.pointer("CreateEpDevice", own.address, hardware, metadata, options)
        for pairs in (metadata, options):
            own.ort.plain("ReleaseKeyValuePairs", pairs)
        if device.memory is not None:
            own.ort("EpDevice_AddAllocatorInfo", made, own.infos[device.number])
        return made

    # ------------------------------------------------------------------ sessions

    def create_ep(
        self, address: int, ep: int, devices: int, count: int, options: int, logger: int
    ) -> None:
        """``CreateEp``: options are checked here, so that a wrong one fails the session."""
        own = self._factories[address]
        if count != 1:
            raise RefusedError(
                Code.INVALID_ARGUMENT, f"{own.name} takes one device for a session; got {count}"
            )
        hardware = (c_void_p * count).from_address(devices)[0] or 0
        pairs = own.ort.pointer("GetSessionOptionsConfigEntries", options)
        try:
            entries = own.ort.pairs(pairs)
        finally:
            own.ort.plain("ReleaseKeyValuePairs", pairs)
        device = own.devices.get(hardware) or Device(Target.parse("cpu"))
        self._sessions[ep] = Session(own.ort, own.name, device, entries, settings(), logger)

    def release_ep(self, ep: int) -> None:
        """``ReleaseEp``."""
        self._sessions.pop(ep, None)

    def capability(self, ep: int, graph: int, info: int) -> None:
        """``GetCapability``."""
        session = self._sessions[ep]
        for nodes in session.claim(read_graph(session.ort, graph)):
            session.ort.fuse(info, nodes)

    def compile(
        self, ep: int, graphs: int, nodes: int, count: int, out: int, contexts: int
    ) -> None:
        """``Compile``: one call for all groups of a graph."""
        session = self._sessions[ep]
        results = (c_void_p * count).from_address(out)
        written = (c_void_p * count).from_address(contexts) if contexts else None
        for k in range(count):
            graph = (c_void_p * count).from_address(graphs)[k] or 0
            fused = (c_void_p * count).from_address(nodes)[k] or 0
            made = session.compile(graph, fused)
            results[k] = self._node(session, made.call, made.inputs, made.outputs, made.flags)
            if session.options.context is not None and written is not None:
                written[k] = made.write_context()

    def _node(
        self,
        session: Session,
        function: Callable[[tuple[int, ...]], object],
        inputs: int,
        outputs: tuple[tuple[int, ...], ...],
        flags: int,
    ) -> int:
        flat = [n for dims in outputs for n in (len(dims), *dims)]
        run = _answering(function, self._table)
        shapes = (c_int64 * max(len(flat), 1))(*flat)
        address = self._table.make_node(
            session.ort.address, id(run), inputs, len(outputs), flags, shapes
        )
        if not address:
            raise RefusedError(
                Code.FAIL, f"a group with {inputs + len(outputs)} inputs and outputs"
            )
        self._nodes[address] = run
        return int(address)

    def release_nodes(self, nodes: int, count: int) -> None:
        """``ReleaseNodeComputeInfos``."""
        for address in (c_void_p * count).from_address(nodes):
            self._nodes.pop(address or 0, None)

    # ------------------------------------------------------------------ memory

    def create_allocator(self, address: int, info: int, memory: int, device: int) -> None:
        """``CreateAllocator``: of a GPU's memory; nothing is stored for any other."""
        own = self._factories[address]
        kind = c_int32()
        own.ort.plain("MemoryInfoGetDeviceType", info, ctypes.byref(kind))
        number = own.ort.number(c_int32, "MemoryInfoGetId", info)
        vendor = own.ort.plain("MemoryInfoGetVendorId", info)
        if kind.value == _GPU and vendor == VENDOR_ID and number in own.infos:
            c_void_p.from_address(memory).value = own.infos[number]
            c_int64.from_address(device).value = number

    def allocate(self, address: int, device: int, size: int, out: int) -> None:
        """Store the address of new memory."""
        c_void_p.from_address(out).value = self._memory(address, device).allocate(size)

    def release(self, address: int, device: int, memory: int) -> None:
        """Take memory back."""
        self._memory(address, device).release(memory)

    def statistics(self, address: int, device: int, out: int) -> None:
        """``GetStats``."""
        own = self._factories[address]
        known = self._memory(address, device).statistics
        pairs = own.ort.new_pairs({name: str(value) for name, value in known.items()})
        c_void_p.from_address(out).value = pairs

    def _memory(self, address: int, device: int) -> GpuMemory:
        return self._factories[address].memories[device]

    def copy_tensors(
        self, address: int, sources: int, targets: int, streams: int, count: int
    ) -> None:
        """``CopyTensors``: whole tensors, in their stream's order where there is one."""
        own = self._factories[address]
        ort = own.ort
        impls = (c_void_p * count).from_address(streams) if streams else (None,) * count
        for k in range(count):
            source = (c_void_p * count).from_address(sources)[k] or 0
            target = (c_void_p * count).from_address(targets)[k] or 0
            sizes = [ort.number(c_size_t, "GetTensorSizeInBytes", v) for v in (source, target)]
            if sizes[0] != sizes[1]:
                text = f"tensors of {sizes[0]} and {sizes[1]} bytes are not copied"
                raise RefusedError(Code.INVALID_ARGUMENT, text)
            if not sizes[0]:
                continue
            kinds = [ort.plain("Value_GetMemoryDevice", v) for v in (source, target)]
            on_gpu = [ort.plain("MemoryDevice_GetDeviceType", d) == _GPU for d in kinds]
            gpu = kinds[0] if on_gpu[0] else kinds[1]
            memory = own.memories[ort.plain("MemoryDevice_GetDeviceId", gpu)]
            memory.transfer(
                ort.pointer("GetTensorMutableData", target),
                ort.pointer("GetTensorData", source),
                sizes[0],
                from_gpu=on_gpu[0],
                to_gpu=on_gpu[1],
                stream=_stream(ort, impls[k] or 0),
            )

    # ------------------------------------------------------------------ streams

    def create_stream(self, address: int, device: int, out: int) -> None:
        """Store a new stream of a GPU."""
        call("hipSetDevice", device, instead=_INSTEAD)
        c_void_p.from_address(out).value = self._kept(call("hipStreamCreate", instead=_INSTEAD))

    def release_stream(self, address: int, stream: int) -> None:
        """Destroy a stream."""
        call("hipStreamDestroy", self._hip_objects.pop(stream), instead=_INSTEAD)

    def flush_stream(self, address: int, stream: int) -> None:
        """``Flush``, ``OnSessionRunEnd``: wait for what was enqueued."""
        call("hipStreamSynchronize", self._hip_objects[stream], instead=_INSTEAD)

    def create_event(self, address: int, stream: int, out: int) -> None:
        """Store a new event."""
        c_void_p.from_address(out).value = self._kept(call("hipEventCreate", instead=_INSTEAD))

    def release_event(self, address: int, event: int) -> None:
        """Destroy an event."""
        call("hipEventDestroy", self._hip_objects.pop(event), instead=_INSTEAD)

    def record_event(self, address: int, event: int, stream: int) -> None:
        """``Activate``."""
        objects = self._hip_objects
        call("hipEventRecord", objects[event], objects[stream], instead=_INSTEAD)

    def await_event(self, address: int, event: int, stream: int) -> None:
        """``WaitOnDevice``, ``WaitOnHost``."""
        objects = self._hip_objects
        if stream in (_HOST, 0):
            call("hipEventSynchronize", objects[event], instead=_INSTEAD)
        else:
            call("hipStreamWaitEvent", objects[stream], objects[event], 0, instead=_INSTEAD)

    def _kept(self, made: Any) -> int:
        address = int(made)
        self._hip_objects[address] = made
        return address


_HIP_WITHOUT_DRIVER = False
"""For tests: ask HIP even where there is no AMD kernel driver."""


class _StreamHead(ctypes.Structure):
    """``struct stream`` of ``native/ep.c``."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("functions", c_void_p * 5),
        ("factory", c_void_p),
        ("own", c_void_p),
    )


def _stream(ort: OrtFunctions, stream: int) -> int:
    impl = ort.plain("SyncStream_GetImpl", stream) if stream else None
    return int(_StreamHead.from_address(impl).own or 0) if impl else 0


def _is_amd_gpu(own: _Factory, hardware: int) -> bool:
    ort = own.ort
    if ort.plain("HardwareDevice_Type", hardware) != _GPU:
        return False
    return bool(ort.plain("HardwareDevice_VendorId", hardware) == VENDOR_ID)


def _answering(
    function: Callable[[tuple[int, ...]], object], table: EpTable
) -> Callable[[tuple[int, ...]], int]:
    """Return what Compute calls: a function of addresses that answers a status."""
    from ..native.table import guarded
    from .abi import OrtError, status_of

    failing = guarded(_raise_again, table.set_error, status_of, (OrtError,), log)

    def run(addresses: tuple[int, ...]) -> int:
        try:
            function(addresses)
        except Exception as error:
            return failing(error)
        return 0

    return run


def _raise_again(error: Exception) -> None:
    raise error
