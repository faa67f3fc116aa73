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

__all__ = ["must_fit", "must_have_device"]


def must_have_device(target: Target) -> None:
    """Raise `DeviceError` before anything is compiled in vain; a CPU is always here."""
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
            * target.is_gfx9
        ) from error


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
