# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AMD GPUs that are emulated (``hipdnn_iree.emulation``), in the place of HIP's in this process.

With them the commands, plans and plugins run as on a machine with such GPUs: IREE's own driver
and hip-python load the stand-in for ROCm's library.  It is C, as threads that know nothing of
Python call it; a wheel contains it, and a checkout builds it at the first use, as the plugin.
Kernels are executed by a process of their own, so that whoever waits for one may hold any lock.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .. import emulation
from ..graph_api.errors import CompileError, DeviceError, SettingError
from ..jit.child_process import ChildProcess, interpreter, search_path
from ..jit.exit_guard import at_end
from ..jit.runtime.device import forget
from ..jit.runtime.hip import emulated as archs_here
from ..jit.target import Target
from .native.library import NativeLibrary

if TYPE_CHECKING:
    from ..emulation.hip.library import Library
    from ..jit.settings_table import Settings

__all__ = ["LIBRARY", "emulated", "start"]

_HIP = Path(emulation.__file__).resolve().parent / "hip"

LIBRARY = NativeLibrary(
    name="libamdhip64.so",
    title="the library of emulated GPUs",
    source=_HIP / "native" / "hip.c",
    shipped=_HIP / "lib" / "libamdhip64.so",
    cache="emulated-hip",
    link=("-Wl,-soname,libamdhip64.so",),
)

_WORKER = "hipdnn_iree.emulation.hip.worker"

_lock = threading.Lock()
_loaded: list[Library] = []  # at most one, for the life of the process


@contextmanager
def emulated(
    arch: str | Sequence[str] = "gfx942", *, devices: int = 1, memory: int = 8 << 30
) -> Iterator[Library]:
    """Have emulated GPUs within the block, as HIP's devices 0, 1 and so on.

    Results are *emulated*: they say what the compiled instructions compute, and nothing of speed.

    Parameters
    ----------
    arch : str or sequence of str
        ``"gfx908"``, ``"gfx90a"``, ``"gfx942"``, ``"gfx950"`` or a product name such as
        ``"mi300x"``; several for GPUs that differ.
    devices : int
        How many of each.
    memory : int
        Bytes of each one.

    Yields
    ------
    Library
        Its ``launches`` counts the kernels that were executed.

    Raises
    ------
    DeviceError
        If ROCm's own library is in this process already, or no process can be started.
    NotSupportedError
        If the library has to be built and there is no C compiler.
    SettingError
        For a name that is no such GPU, or more than 16 devices.

    Examples
    --------
    >>> with emulated("gfx942", devices=2):  # doctest: +SKIP
    ...     y = graph.build("gfx942").run({x: array})
    """
    from ..jit.settings import settings

    names = [arch] if isinstance(arch, str) else list(arch)
    before = archs_here()
    library = _have([name for name in names for _ in range(devices)], settings(), memory)
    try:
        yield library
    finally:
        forget("hip")
        library.devices(before)


def start(settings: Settings) -> None:
    """Have the emulated GPUs that ``HIPDNN_IREE_EMULATE`` names from now on; else do nothing.

    Errors are those of `emulated`.
    """
    if settings.runtime_emulate and not (_loaded and archs_here() and _loaded[0].running):
        _have(settings.runtime_emulate, settings, 0)


def _have(names: Sequence[str], settings: Settings, memory: int) -> Library:
    from ..emulation.hip.library import Library

    def spawn(arguments: Sequence[str], descriptors: Sequence[int]) -> ChildProcess:
        return ChildProcess(
            interpreter(settings.compiler_python),
            _WORKER,
            arguments,
            search_path(),
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
        )

    found = []
    for name in names:
        target = Target.parse(name)
        if target.drivers != ("hip",):
            raise SettingError(f"{name} is no AMD GPU; emulated are gfx908, gfx90a, gfx942, gfx950")
        found.append(f"{target.arch}:sramecc+:xnack-")  # the modes of most machines
    with _lock:
        try:
            if not _loaded:
                _loaded.append(Library(LIBRARY.find(settings), spawn))
                at_end(_stop)
            forget("hip")
            _loaded[0].devices(found, memory)
            _loaded[0].start()
        except (CompileError, OSError) as error:  # no interpreter is the compiler's error
            raise DeviceError(f"no GPU can be emulated here: {error}") from error
        return _loaded[0]


def _stop(deadline: float) -> bool:
    _loaded[0].stop()
    return True
