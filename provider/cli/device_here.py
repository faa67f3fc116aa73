"""Whether what a command runs on is here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...graph_api.errors import DeviceError
from ...jit.settings import settings

if TYPE_CHECKING:
    from ...jit.target import Target

__all__ = ["must_have_device"]


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
