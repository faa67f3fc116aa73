# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hip-python, whose functions changed within the range that pyproject.toml allows.

Both signatures as modules of Python, and real wheels with a stand-in for ROCm's library: the one
that is installed, or unpacked ones that HIP_PYTHON_WHEELS names, joined by ``:``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import DeviceError
from hipdnn_iree.jit.runtime.hip import call, target_of

NAME = "gfx942:sramecc+:xnack-"


class Properties:
    """A structure that is empty until it is filled."""

    gcnArchName = b""  # noqa: N815


def _filled(properties: Properties, device: int) -> tuple[int]:
    """As in 7.0 to 7.2."""
    if device:
        return (101,)
    properties.gcnArchName = NAME.encode()
    return (0,)


def _returned(device: int) -> tuple[int, Any]:
    """As in 10.0."""
    return (101, Properties()) if device else (0, SimpleNamespace(gcnArchName=NAME))


@pytest.mark.parametrize("function", [_filled, _returned])
def test_properties_in_both_signatures(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    hip = SimpleNamespace(hipGetDeviceProperties=function, hipDeviceProp_t=Properties)
    monkeypatch.setitem(sys.modules, "hip", SimpleNamespace(hip=hip))
    assert str(target_of(0, call("hipGetDeviceProperties", 0, instead=""))) == NAME
    with pytest.raises(DeviceError, match="hipGetDeviceProperties failed: 101"):
        call("hipGetDeviceProperties", 1, instead="")
    with pytest.raises(DeviceError, match="HIP cannot be used"):
        call("hipGetDeviceProperties", 1, 2, 3, instead="")


USE = """
import ctypes
from hipdnn_iree.graph_api.errors import DeviceError
from hipdnn_iree.hipdnn_plugin.devices import _hip, place_of
from hipdnn_iree.provider.engines.foreign.places import here

place = here("hip")
assert str(place.target) == str(place_of(0, "hip").target) == "gfx942:sramecc+:xnack-", place
stream, destroy = place.stream()
assert place_of(stream, "hip").stream == stream
source, result = (ctypes.create_string_buffer(text) for text in (b"written", b"nothing"))
address, held = place.allocate(8)
place.write(address, ctypes.addressof(source), 8)
place.read(ctypes.addressof(result), address, 8)
place.wait(stream)
destroy()
assert result.value == b"written", result.value
try:
    _hip("hipGetDeviceProperties", 7)
except DeviceError as error:
    assert "hipErrorInvalidDevice" in str(error), error
else:
    raise AssertionError("there is no device 7")
"""

WHEELS = os.environ.get("HIP_PYTHON_WHEELS", "").split(":")


@pytest.mark.parametrize("wheel", WHEELS)
def test_a_wheel_with_a_device(tmp_path: Path, wheel: str) -> None:
    if not wheel:
        pytest.importorskip("hip")
    library = tmp_path / "libamdhip64.so"
    source = Path(__file__).with_name("libamdhip64.c")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": wheel}
    words = [sys.executable, "-c", USE]
    done = subprocess.run(words, env=environment, text=True, capture_output=True, timeout=300)
    assert not done.returncode, done.stderr
