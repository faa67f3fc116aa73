# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled code on a device: verified, loaded, with its functions looked up once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...graph_api.errors import ArtifactError, DeviceError
from ..exit_guard import native
from ..signature import ArgSpec
from .cpu import missing_features
from .device import Device, reason
from .iree_native import iree
from .waiting import patient

if TYPE_CHECKING:
    from .parameters import Parameters

__all__ = ["LoadedModule", "transient_bytes", "verify"]

_SIZE = "iree.abi.transients.size"


class LoadedModule:
    """One loaded vmfb; made by `load`.

    Attributes
    ----------
    device : Device
        The device that executes it.
    context : iree.runtime.VmContext
        Owner of the loaded code; may be invoked by several threads at once.
    invoke : callable
        Executes a function of it: ``invoke(function, arguments, results)``.
    main, main_async : iree.runtime.VmFunction
        ``main(outs..., ins..., workspace)``, and the function with two more arguments: the
        fence to wait for and the fence to signal.
    workspace_bytes : int or None
        Bytes of workspace that a call needs; None if they depend on the shapes (`measure`).
    """

    __slots__ = (
        "__weakref__",
        "_size",
        "context",
        "device",
        "invoke",
        "main",
        "main_async",
        "workspace_bytes",
    )

    def __init__(
        self,
        device: Device,
        context: Any,
        main: Any,
        main_async: Any,
        workspace_bytes: int | None,
        size: Any = None,
    ) -> None:
        self._size = size
        self.device = device
        self.context = context
        # Only there does the call sleep while other threads of the CPU work for it.
        self.invoke = patient(context.invoke) if device.driver == "local-task" else context.invoke
        self.main = main
        self.main_async = main_async
        self.workspace_bytes = workspace_bytes

    @native
    def measure(self, args: Sequence[ArgSpec]) -> int:
        """Return the bytes of workspace that a call with arguments of these shapes needs.

        Raises
        ------
        DeviceError
            If there is no memory for the largest argument, which is allocated for a moment.
        ArtifactError
            If the code does not take such arguments.
        """
        if self.workspace_bytes is not None:
            return self.workspace_bytes
        from .device_memory import allocate, as_view

        # Only the shapes are read, but a buffer view must have memory.
        memory = allocate(self.device, max(a.nbytes for a in args))
        arguments, results = iree().VmVariantList(len(args) + 3), iree().VmVariantList(1)
        for spec in args:
            if not spec.scalar:
                arguments.push_ref(as_view(memory, spec))
            elif spec.data_type.is_float:
                arguments.push_float(0.0)
            else:
                arguments.push_int(0)
        for ref in (memory, iree().HalFence(0), iree().HalFence(0)):
            arguments.push_ref(ref)
        try:
            self.context.invoke(self._size, arguments, results)
        except Exception as error:
            raise ArtifactError(
                f"the code does not match its signature: {reason(error)}"
            ) from error
        return int(results.get_variant(0))

    @classmethod
    @native
    def load(
        cls,
        device: Device,
        vmfb: bytes | memoryview,
        *,
        sha256: str = "",
        target: str = "",
        dynamic: bool = False,
        parameters: Parameters | None = None,
    ) -> LoadedModule:
        """Verify the bytes and load them.

        Parameters
        ----------
        device : Device
            The device that will execute the code.
        vmfb : bytes-like
            Output of the compiler with ``--iree-torch-externalize-transients``.  It is copied
            to aligned memory; the caller may drop it.
        sha256 : str, optional
            Hex digest that the bytes must have.  Without it the checksums inside the file are
            verified (10 ms more at the first call, which imports ``zipfile``).
        target : str, optional
            The target of the code, for the error text.
        dynamic : bool
            Whether the size of the workspace may depend on the shapes.
        parameters : Parameters, optional
            The graph's constants; what follows from them alone is computed now.

        Raises
        ------
        ArtifactError
            If the bytes are damaged or not such a module.
        DeviceError
            If the code is for another type of device, or for a CPU with more features.
        """
        rt = iree()
        device.check()
        verify(vmfb, sha256)
        lacking = missing_features(vmfb) if device.on_host else ()
        if lacking:
            raise DeviceError(
                f"the code is for {target or 'another CPU'}; this CPU lacks {', '.join(lacking)}"
            )
        try:
            module = rt.VmModule.copy_buffer(device.instance, vmfb)
        except Exception as error:
            raise ArtifactError(f"IREE cannot read the module: {reason(error)}") from error
        size = module.lookup_function("main$async_transients_size")
        workspace_bytes = None if dynamic and _is_open(module) else _transients(module)
        main, main_async = module.lookup_function("main"), module.lookup_function("main$async")
        if main is None:
            raise ArtifactError(f"the module has no function main; it has {module.function_names}")
        try:
            hal = rt.create_hal_module(device.instance, device.hal)
            own = () if parameters is None else (parameters.module(device.instance),)
            context = rt.VmContext(device.instance, [*own, hal, module])
        except Exception as error:
            raise _load_error(error, device, target) from error
        return cls(device, context, main, main_async, workspace_bytes, size)


def verify(vmfb: bytes | memoryview, sha256: str = "") -> None:
    """Raise `ArtifactError` unless the bytes are what the compiler wrote.

    IREE reads a module without checking it (W-040).  Of 600 modules that were truncated or had bits
    flipped or zeroed at random, 7 ended the process with a segmentation fault and over 200 were
    loaded.  Of 1,500 damaged modules that were checked here first, none did harm (75 passed:
    their damage was in bytes without a meaning).

    Parameters
    ----------
    vmfb : bytes-like
        The module.
    sha256 : str, optional
        Expected digest; if empty, the CRCs of the file, which is a ZIP archive, are checked.
    """
    if sha256:
        found = hashlib.sha256(vmfb).hexdigest()
        if found != sha256.lower():
            raise ArtifactError(
                f"the module is damaged: sha256 is {found}, wanted {sha256.lower()} "
                f"({len(vmfb)} bytes)"
            )
        return
    import io
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(vmfb)) as archive:
            damaged = archive.testzip()
    except Exception as error:  # zipfile raises many kinds for garbage
        raise ArtifactError(
            f"the module is damaged or no module ({len(vmfb)} bytes): {error}"
        ) from error
    if damaged is not None:
        raise ArtifactError(f"the module is damaged: wrong checksum of its part {damaged!r}")


def transient_bytes(vmfb: bytes | memoryview) -> int:
    """Return the bytes of workspace that a module needs, for any target, without a device.

    Raises
    ------
    ArtifactError
        If the bytes are damaged, or were compiled without ``--iree-torch-externalize-transients``.
    """
    rt = iree()
    verify(vmfb)
    return _transients(rt.VmModule.copy_buffer(rt.VmInstance(), vmfb))


def _is_open(module: Any) -> bool:
    """Whether the size of the workspace depends on run-time values."""
    function = module.lookup_function("main$async")
    about = {} if function is None else function.reflection
    return _SIZE in about and f"{_SIZE}.constant" not in about


def _transients(module: Any) -> int:
    function = module.lookup_function("main$async")
    about = {} if function is None else function.reflection
    if f"{_SIZE}.constant" in about:
        return int(about[f"{_SIZE}.constant"])
    raise ArtifactError(
        "the module's workspace size depends on run-time values"
        if _SIZE in about
        else "the module was not compiled with --iree-torch-externalize-transients"
    )


def _load_error(error: Exception, device: Device, target: str) -> ArtifactError | DeviceError:
    """Return the error for code of another device, or for damaged code."""
    text = str(error)
    if device.on_host and "INCOMPATIBLE" not in text:
        return ArtifactError(f"the module does not load: {reason(error)}")
    if device.on_host:
        import platform

        here = f"{device.driver} on {platform.machine()}"
    else:
        here = f"{device.driver} device {device.device_id}"
    asked = re.search(r'target<"([^"]*)", \[#hal\.executable\.target<"([^"]*)", "([^"]*)"', text)
    arch = re.search(r'\b(?:arch|cpu) = "([^"]*)"', text)
    found = ", ".join([*(asked.groups() if asked else ()), *(arch.groups() if arch else ())])
    made_for = " = ".join(filter(None, (target, found))) or "another device"
    return DeviceError(f"the code is for {made_for}; the device is {here}: {reason(error)}")
