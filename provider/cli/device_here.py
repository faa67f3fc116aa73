# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether what a command runs on is here, and large enough."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...graph_api.errors import DeviceError
from ...jit.settings import settings

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenGraph
    from ...jit.target import Target

__all__ = ["must_fit", "must_have_device", "why_no_device"]


def must_have_device(target: Target, *, emulates: bool = True) -> None:
    """Raise `DeviceError` before anything is compiled in vain; a CPU is always here.

    ``emulates`` says whether the command has an option for it.
    """
    if target.is_cpu:
        return
    from ...jit.runtime.device import Device
    from ..emulated import start

    now = settings()
    try:
        start(now)
        Device.open(target.drivers[0], device_id=now.runtime_device)
    except DeviceError as error:
        raise DeviceError(
            f"{target} cannot run here: {error}\n"
            f"  to compile without running: hipdnn-iree compile GRAPH --target {target}"
            + "\n  to run it on an emulated GPU: --emulate"
            * (emulates and target.is_gfx9)
        ) from error


def why_no_device(target: Target) -> str:
    """Return why code for a target cannot run here; empty where it can.

    Libraries of drivers are loaded in another process: nothing here crashes with them.
    """
    if target.is_cpu:
        return ""
    if not target.is_gfx9:
        return f"whether {target} is here is only known when it runs"
    if emulated := settings().runtime_emulate:
        from ...jit.target import Target as Parsed

        archs = [Parsed.parse(name).arch for name in emulated]
        return "" if target.arch in archs else f"the emulated GPUs are {', '.join(archs)}"
    from .probes import rocm

    about = rocm(probe=True)
    gpus, asked = about["gpus"], about.get("probe")
    if not isinstance(gpus, list) or not gpus:
        return "there is no AMD GPU here"
    if target.arch not in gpus:
        return f"the GPUs here are {', '.join(gpus)}"
    if not about["libraries"]:
        return "ROCm's libamdhip64.so is not found"
    if not isinstance(asked, dict) or "error" in asked or not asked["devices"]:
        said = asked.get("error", "it finds no device") if isinstance(asked, dict) else asked
        return f"HIP cannot be used: {said}"
    return ""


def must_fit(frozen: FrozenGraph) -> None:
    """Raise `DeviceError` for arrays that this machine has no memory for."""
    bound = (*frozen.inputs, *frozen.outputs)
    specs = [frozen.tensors[uid] for uid in bound]
    wanted = sum(spec.data_type.nbytes(spec.layout.span) for spec in specs)
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if wanted > have:
        raise DeviceError(
            f"the graph's inputs and outputs take {wanted:,} bytes; this machine has {have:,}"
        )
