# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The HIP library of emulated GPUs, as C hosts and hip-python call it, in a process of its own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fresh_python import printed
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.emulated import LIBRARY

# The library with an executor that knows one kernel, which stores what it is launched with; it is
# a thread in the place of the process that executes kernels.
START = """
import ctypes, os, socket, struct, sys, threading
from pathlib import Path
from types import SimpleNamespace
from hipdnn_iree.emulation.hip.library import Library
from hipdnn_iree.emulation.hip.service import HipError, Window, serve

launched = []

class Executor:
    executed = {"store": {8, 4}}

    def load(self, code, arch):
        if not arch.startswith("gfx942"):
            raise HipError(209, f"code for gfx942, and the device is {arch}")
        kinds = [(0, 8, "global_buffer"), (8, 4, "by_value"), (16, 4, "hidden_block_count_x"),
                 (20, 2, "hidden_group_size_y")]
        arguments = [SimpleNamespace(offset=o, size=s, kind=k) for o, s, k in kinds]
        kernel = SimpleNamespace(arguments=arguments, kernarg_bytes=24, lds_bytes=512)
        return SimpleNamespace(kernels={"store": kernel})

    def launch(self, module, name, grid, block, arguments, memory, *, shared_bytes):
        launched.append((name, grid, block, arguments, shared_bytes))
        address, value = struct.unpack_from("<Qi", arguments)
        for begin, size, at in memory:
            if begin <= address < begin + size:
                ctypes.c_int32.from_address(at + address - begin).value = value
                return
        raise ValueError(f"a store to {address:#x} in no allocation")

def spawn(arguments, descriptors):
    here = int(arguments[2])
    work = [socket.socket(fileno=os.dup(descriptors[0])), Executor(), Window(here, here)]
    threading.Thread(target=serve, args=work, daemon=True).start()
    return SimpleNamespace(pid=os.getpid(), running=True, end=int)

library = Library(Path(sys.argv[1]), spawn)
library.start()
library.devices(["gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-", "gfx90a"], 1 << 20)
native = ctypes.CDLL("libamdhip64.so")  # by the name that everybody uses
native.hipGetErrorString.restype = ctypes.c_char_p

def pointer(function, *arguments):
    found = ctypes.c_void_p()
    status = getattr(native, function)(ctypes.byref(found), *arguments)
    return status, found

def fails(status, *words):
    text = native.hipGetErrorString(status).decode()
    assert all(word in text for word in words), text

def new(size, device=0):
    assert not native.hipSetDevice(device)
    status, found = pointer("hipMalloc", ctypes.c_size_t(size))
    assert not status, native.hipGetErrorString(status)
    return found

size_t = ctypes.c_size_t
# The smallest file that has the header of one.
image = ctypes.create_string_buffer(struct.pack("<4sB35xQ10xHH2x", b"\\x7fELF", 2, 64, 0, 0), 64)
"""

PARTS = {
    "memory": """
small = new(10)
assert ctypes.string_at(small, 10) == b"\\xff" * 10  # poison
host = ctypes.create_string_buffer(b"0123456789abcdef", 16)
assert native.hipMemcpy(small, host, size_t(10), 1) == 0
assert native.hipMemcpy(host, small, size_t(11), 2) == 700
fails(700, "11 bytes", "ends after 10")
assert native.hipMemsetD16Async(small, 0x4241, size_t(5), None) == 0
assert ctypes.string_at(small, 10) == b"AB" * 5
assert native.hipMemsetD32Async(small, 1, size_t(3), None) == 700
odd = ctypes.c_void_p(small.value + 1)
assert native.hipMemsetD16Async(odd, 1, size_t(1), None) == 1
assert native.hipMemset(small, 7, size_t(0)) == 0
assert native.hipFree(odd) == 1 and native.hipFree(None) == 0 and native.hipFree(small) == 0
assert native.hipMemset(small, 0, size_t(1)) == 700  # freed; nothing else lies there
fails(700, "no live allocation")
assert native.hipFree(small) == 1
assert pointer("hipMalloc", size_t(-1))[0] == 2
status, found = pointer("hipMalloc", size_t(2 << 20))
assert status == 2 and not found
fails(2, "2097152 bytes", "1048576")
held = [new(4096) for _ in range(256)]
assert pointer("hipMalloc", size_t(1))[0] == 2
assert native.hipSetDevice(1) == 0 and pointer("hipMalloc", size_t(1))[0] == 0  # has its own
for one in held:
    assert native.hipFree(one) == 0
free, total = size_t(), size_t()
assert native.hipSetDevice(0) == 0
assert native.hipMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
assert free.value == total.value == 1 << 20
assert pointer("hipMalloc", size_t(0)) [0] == 0
""",
    "launches": """
status, module = pointer("hipModuleLoadData", image)
assert not status, native.hipGetErrorString(status)
assert pointer("hipModuleGetFunction", module, b"other")[0] == 500
fails(500, "no kernel other")
_, store = pointer("hipModuleGetFunction", module, b"store")
theirs, mine = new(4, 1), new(4)
def launch(address, value, grid=(3, 1, 1), stream=None):
    cells = ctypes.c_void_p(address), ctypes.c_int(value)
    array = (ctypes.c_void_p * 2)(*(ctypes.addressof(cell) for cell in cells))
    return native.hipModuleLaunchKernel(store, *grid, 64, 2, 1, 16, stream, array, None)
assert launch(mine.value, 42) == 0
assert ctypes.c_int.from_address(mine.value).value == 42
assert library.launches == 1 and library.executed() == {"store": {4, 8}}
packed = struct.pack("<Qi4xIH2x", mine.value, 42, 3, 2)
assert launched == [("store", (3, 1, 1), (64, 2, 1), packed, 16)], launched
assert launch(mine.value, 1, grid=(0, 1, 1)) == 1
assert launch(theirs.value, 1) == 719  # of device 1, on the default stream of device 0
fails(719, "ValueError", "in no allocation")
assert native.hipGetLastError() == 719 and native.hipGetLastError() == 0
assert native.hipSetDevice(1) == 0
_, stream = pointer("hipStreamCreate")
assert native.hipSetDevice(0) == 0
assert launch(theirs.value, 43, stream=stream) == 0  # the stream says where
assert ctypes.c_int.from_address(theirs.value).value == 43
buffer = ctypes.create_string_buffer(struct.pack("<Qi", mine.value, 44), 12)
size = size_t(12)
extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 3)
assert native.hipModuleLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, None, None, extra) == 0
assert ctypes.c_int.from_address(mine.value).value == 44
registered = ctypes.create_string_buffer(b"abcdefghi", 9)
second = ctypes.addressof(registered) + 4
assert launch(second, 1) == 719
assert native.hipHostRegister(registered, size_t(9), 0) == 0
assert launch(second, 0x41414141) == 0 and registered.raw == b"abcdAAAAi", registered.raw
assert native.hipHostUnregister(registered) == 0 and native.hipHostUnregister(registered) == 713
import mmap
gone = mmap.mmap(-1, 8192)
lost = ctypes.addressof(ctypes.c_char.from_buffer(gone))
assert native.hipHostRegister(ctypes.c_void_p(lost), size_t(8192), 0) == 0
assert launch(lost + 4096, 5) == 0 and gone[4096] == 5
protect = ctypes.CDLL(None).mprotect
protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
assert protect(lost, 8192, mmap.PROT_READ) == 0
assert launch(lost, 6) == 700
fails(700, "cannot be written any more")
assert protect(lost, 4096, 0) == 0  # as if it were unmapped
assert launch(lost, 6) == 719 and launch(mine.value, 44) == 0
assert native.hipHostUnregister(ctypes.c_void_p(lost)) == 0
large = ctypes.create_string_buffer(28)
size.value = 25
extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(large), 2, ctypes.addressof(size), 3)
assert native.hipModuleLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, None, None, extra) == 1
fails(1, "store takes 24 bytes of arguments, got 25")
assert native.hipModuleLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 1
fails(1, "store takes 2 arguments, got none")
assert native.hipSetDevice(2) == 0
assert pointer("hipModuleLoadData", image)[0] == 209
fails(209, "gfx90a")
native.hipSetDevice(0)
assert pointer("hipModuleLoadData", ctypes.create_string_buffer(b"nothing", 64))[0] == 200
huge = struct.pack("<4sB35xQ10xHH2x", b"\\x7fELF", 2, 1 << 40, 64, 1)
assert pointer("hipModuleLoadData", ctypes.create_string_buffer(huge, 64))[0] == 200
fails(200, "speaks of more than 1073741824 bytes")
assert native.hipModuleUnload(module) == 0 and launch(mine.value, 1) == 719
library.stop()
assert pointer("hipModuleLoadData", image)[0] == 600
""",
    "forks": """
mine, number = new(4), ctypes.c_int()
child = os.fork()
if not child:
    found = native.hipGetDeviceCount(ctypes.byref(number)), pointer("hipModuleLoadData", image)[0]
    os._exit(not (found == (100, 600) and native.hipFree(mine) == 1))
assert os.waitpid(child, 0)[1] == 0
assert ctypes.string_at(mine, 4) == b"\\xff" * 4
assert pointer("hipModuleLoadData", image)[0] == 0
""",
    "devices": """
number, text = ctypes.c_int(), ctypes.create_string_buffer(64)
assert native.hipGetDeviceCount(ctypes.byref(number)) == 0 and number.value == 3
assert native.hipDeviceGetName(text, 64, 2) == 0 and text.value == b"emulated gfx90a"
assert native.hipSetDevice(3) == 101
fails(101, "no emulated device 3")
streams = []
for device in (0, 1):
    assert native.hipSetDevice(device) == 0
    streams.append(pointer("hipStreamCreate")[1])
_, event = pointer("hipEventCreate")  # of device 1
for device, stream in enumerate(streams):
    assert native.hipStreamGetDevice(stream, ctypes.byref(number)) == 0
    assert number.value == device
    assert native.hipEventRecord(event, stream) == (0 if device else 400)
assert native.hipStreamWaitEvent(streams[0], event, 0) == 0
assert native.hipEventSynchronize(streams[0]) == 400
fails(400, "no live event")
assert native.hipStreamDestroy(streams[0]) == 0 and native.hipStreamSynchronize(streams[0]) == 400
called = []
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(called.append)
assert native.hipLaunchHostFunc(None, function, ctypes.c_void_p(5)) == 0 and called == [5]
_, context = pointer("hipDevicePrimaryCtxRetain", 1)
import threading
assert native.hipSetDevice(2) == 0
assert native.hipCtxPushCurrent(context) == 0
assert native.hipGetDevice(ctypes.byref(number)) == 0 and number.value == 1
thread = threading.Thread(target=native.hipGetDevice, args=[ctypes.byref(number)])
thread.start(); thread.join()
assert number.value == 0  # each thread has its own
assert native.hipCtxPopCurrent(None) == 0
assert native.hipGetDevice(ctypes.byref(number)) == 0 and number.value == 2
assert native.hipCtxSetCurrent(ctypes.c_void_p(4096)) == 201
assert native.hipGraphLaunch() == 801
library.devices([])
assert native.hipGetDeviceCount(ctypes.byref(number)) == 100 and number.value == 0
assert library.archs == ()
""",
    "hip-python": """
from hipdnn_iree.jit.runtime.hip import call, emulated, target_of
from hipdnn_iree.provider.engines.foreign.places import here
assert emulated() == ("gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-", "gfx90a")
assert call("hipGetDeviceCount", instead="") == 3
properties = call("hipGetDeviceProperties", 2, instead="")
assert str(target_of(2, properties)) == "gfx90a"
assert (properties.warpSize, properties.totalGlobalMem) == (64, 1 << 20)
assert (properties.maxThreadsPerBlock, properties.sharedMemPerBlock) == (1024, 65536)
call("hipSetDevice", 1, instead="")
place = here("auto")
assert (place.device_id, str(place.target)) == (1, "gfx942:sramecc+:xnack-")
stream, destroy = place.stream()
assert call("hipStreamGetDevice", stream, instead="") == 1
address, held = place.allocate(100)
given, got = ctypes.create_string_buffer(bytes(range(100)), 100), ctypes.create_string_buffer(100)
place.write(address, ctypes.addressof(given), 100)
place.read(ctypes.addressof(got), address, 100)
place.wait(stream)
destroy()
assert got.raw == given.raw
""",
}


@pytest.mark.parametrize("part", PARTS)
def test_part(tmp_path: Path, part: str) -> None:
    if part == "hip-python":
        pytest.importorskip("hip")
    printed(START + PARTS[part], str(LIBRARY.find(settings())), home=tmp_path)


def test_before_python_starts_it(tmp_path: Path) -> None:
    """A host that calls HIP first has the devices that the variable names."""
    program = """
import ctypes, os, sys
os.putenv("HIPDNN_IREE_EMULATE", "gfx942,gfx950")
native, number = ctypes.CDLL(sys.argv[1]), ctypes.c_int()
text = ctypes.create_string_buffer(64)
assert native.hipGetDeviceCount(ctypes.byref(number)) == 0 and number.value == 2
assert native.hipDeviceGetName(text, 64, 1) == 0 and text.value == b"emulated gfx950"
found = ctypes.c_void_p()
assert native.hipModuleLoadData(ctypes.byref(found), b"") == 600
"""
    printed(program, str(LIBRARY.find(settings())), home=tmp_path)


def test_where_addresses_are_limited(tmp_path: Path) -> None:
    """As by ``ulimit -v``: there are fewer addresses to give out, and errors instead of crashes."""
    program = """
import ctypes, os, resource, sys
os.putenv("HIPDNN_IREE_EMULATE", "gfx942")
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
native, found = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
held = []
while not (status := native.hipMalloc(ctypes.byref(found), ctypes.c_size_t(150 << 20))):
    held.append(found.value)
assert status == 2 and len(held) > 1, (status, held)
for address in held:
    assert native.hipFree(ctypes.c_void_p(address)) == 0
assert native.hipMalloc(ctypes.byref(found), ctypes.c_size_t(150 << 20)) == 0
"""
    printed(program, str(LIBRARY.find(settings())), home=tmp_path)


def test_the_process_that_executes_kernels_ends() -> None:
    """By a signal, as of a system without memory: an error, and the next one serves again."""
    program = """
import ctypes, os, signal, struct
from hipdnn_iree.provider.emulated import emulated

image = ctypes.create_string_buffer(struct.pack("<4sB35xQ10xHH2x", b"\\x7fELF", 2, 64, 0, 0), 64)
found = ctypes.c_void_p()
def load():
    return native.hipModuleLoadData(ctypes.byref(found), image)
with emulated("gfx942") as library:
    native = library.native
    native.hipGetErrorString.restype = ctypes.c_char_p
    assert load() == 200, native.hipGetErrorString(load())  # it is no code for a GPU
    first = library._worker.pid
    os.kill(first, signal.SIGKILL)
    for _ in range(2):
        assert load() == 719
        assert b"has ended by signal 9" in native.hipGetErrorString(719)
with emulated("gfx942") as library:
    assert library._worker.pid != first
    assert load() == 200
"""
    printed(program, home=cache())


def test_it_ends_with_its_host() -> None:
    """Also where the host leaves without a word."""
    program = """
import os
from hipdnn_iree.provider.emulated import emulated

with emulated("gfx942") as library:
    print(library._worker.pid, flush=True)
    os._exit(0)
"""
    worker = int(printed(program, home=cache()))
    end = time.monotonic() + 30
    while runs(worker) and time.monotonic() < end:
        time.sleep(0.01)
    assert not runs(worker)


def cache() -> Path:
    """The folder with the library, which a program without ``PATH`` cannot build."""
    LIBRARY.find(settings())
    return settings().cache_dir


def runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # which nobody has taken notice of yet
