# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Registering the execution provider with the ONNX Runtime of this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...graph_api.errors import DeviceError, NotSupportedError
from ...jit.settings import settings
from .context import DEFAULT_NAME
from .onnx_library import LIBRARY

__all__ = ["DEFAULT_NAME", "devices", "onnxruntime", "register", "session_options", "unregister"]

_OLDEST = (1, 23)


def register(name: str = DEFAULT_NAME) -> list[Any]:
    """Register the execution provider, and return its devices.

    A second call under the same name only returns the devices.

    Parameters
    ----------
    name : str
        What ONNX Runtime calls the provider.  Names that end in ``.virtual`` also offer a GPU
        that is not here, to compile for.

    Returns
    -------
    list of OrtEpDevice
        For ``SessionOptions.add_provider_for_devices``.

    Raises
    ------
    NotSupportedError
        If onnxruntime is not installed, or too old.

    Examples
    --------
    >>> import onnxruntime as ort  # doctest: +SKIP
    >>> from hipdnn_iree.provider.onnx import register, session_options
    >>> register()  # doctest: +SKIP
    >>> session = ort.InferenceSession("m.onnx", session_options())  # doctest: +SKIP
    """
    ort = onnxruntime()
    if not devices(name):
        ort.register_execution_provider_library(name, str(LIBRARY.find(settings())))
    return devices(name)


def unregister(name: str = DEFAULT_NAME) -> None:
    """Take the provider out again; sessions that use it go on."""
    onnxruntime().unregister_execution_provider_library(name)


def devices(name: str = DEFAULT_NAME) -> list[Any]:
    """Return the devices of the provider that are registered under a name."""
    return [d for d in onnxruntime().get_ep_devices() if d.ep_name == name]


def session_options(
    options: Mapping[str, object] | None = None,
    *,
    device: str = "",
    name: str = DEFAULT_NAME,
    onto: Any = None,
) -> Any:
    """Return ``SessionOptions`` of ONNX Runtime that use the provider, registered if need be.

    Parameters
    ----------
    options : mapping, optional
        Of the provider: ``target``, ``engine``, ``cache_dir`` and others (docs/onnx.md).
    device : str
        ``"hip"``, ``"cpu"`` or ``"virtual"``; by default a GPU where there is one.
    name : str
        As of `register`.
    onto : SessionOptions, optional
        To add the provider to.

    Raises
    ------
    DeviceError
        If there is no such device.
    """
    ort = onnxruntime()
    number = str((options or {}).get("device_id", ""))  # of a GPU: others have none
    found = {
        d.ep_metadata.get("device", ""): d
        for d in reversed(register(name))
        if number in ("", d.ep_options.get("device_id"))
    }
    wanted = [device] if device else ["hip", "cpu"]
    chosen = next((found[kind] for kind in wanted if kind in found), None)
    if chosen is None:
        raise DeviceError(
            f"{name} has no device {device or 'here'!r}"
            + (f" with device_id {number}" if number else "")
            + f"; it has {', '.join(d.ep_metadata.get('device', '') for d in devices(name))}"
        )
    made = onto if onto is not None else ort.SessionOptions()
    words = {k: str(int(v) if isinstance(v, bool) else v) for k, v in (options or {}).items()}
    words.pop("device_id", None)  # the device's own options have it
    made.add_provider_for_devices([chosen], words)
    return made


def onnxruntime() -> Any:
    """Return the module; raises `NotSupportedError` where it is missing or too old."""
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise NotSupportedError(
            f"onnxruntime cannot be imported ({error}); pip install 'hipdnn-iree[onnx]'"
        ) from error
    version = tuple(int(part) for part in ort.__version__.split(".")[:2])
    if version < _OLDEST:
        raise NotSupportedError(
            f"onnxruntime {ort.__version__} has no plugin providers; wanted 1.23 or newer"
        )
    return ort
