# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Facts about this machine and installation: standard library only, and each one guarded.

A probe that fails says so in its place and stops no other one.  Packages are looked at through
their metadata and never imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["report", "rocm"]

PACKAGES = (
    "hipdnn-iree",
    "iree-base-compiler",
    "iree-base-runtime",
    "torch-mlir",
    "numpy",
    "ml_dtypes",
    "hip-python",
    "click",
    "rich",
    "pyyaml",
    "torch",
    "onnx",
)
_HIP = "libamdhip64.so"


def report(*, probe: bool = False) -> dict[str, Any]:
    """Return everything that can be found, by section.

    Parameters
    ----------
    probe : bool
        Load ROCm's library in another process and ask it for devices.
    """
    sections: dict[str, Callable[[], Any]] = {
        "hipdnn_iree": _package,
        "python": _python,
        "platform": _platform,
        "packages": _packages,
        "settings": _settings,
        "unknown_variables": _unknown,
        "cache": _cache,
        "cpu": _cpu,
        "rocm": lambda: rocm(probe=probe),
        "torch": _torch,
    }
    return {name: _guarded(look) for name, look in sections.items()}


def _guarded(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Exception as error:  # whatever is broken here is what the report is for
        return {"error": f"{type(error).__name__}: {error}"}


def _package() -> dict[str, Any]:
    from ... import __version__

    package = sys.modules[__name__.partition(".")[0]]
    return {"version": __version__, "location": os.path.dirname(package.__file__ or "")}


def _python() -> dict[str, Any]:
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "version": version,
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "virtual_environment": sys.prefix if sys.prefix != sys.base_prefix else None,
    }


def _platform() -> dict[str, Any]:
    system = os.uname()
    found = {"system": system.sysname, "release": system.release, "machine": system.machine}
    try:
        for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
            if line.startswith("PRETTY_NAME="):
                found["distribution"] = line.partition("=")[2].strip("\"'")
    except OSError:
        pass
    return found


def _packages() -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
        except Exception as error:  # metadata that cannot be read
            found[name] = f"unreadable: {error}"
    return found


def _settings() -> list[dict[str, Any]]:
    from ...jit.settings import describe

    kept = ("name", "env", "value", "default", "origin", "allowed", "in_cache_key")
    return [{key: row[key] for key in kept} for row in describe()]


def _unknown() -> dict[str, str]:
    from ...jit.settings import unknown_variables

    return {
        name: f"did you mean {near}?" if near else "no such setting"
        for name, near in unknown_variables().items()
    }


def _cache() -> dict[str, Any]:
    from ...jit.cache import CacheStore
    from ...jit.settings import settings

    now = settings()
    found = CacheStore(now.cache_dir, now.cache_max_bytes).info()
    return {
        "root": found.root,
        "mode": now.cache_mode,
        "off": found.off,
        "entries": found.entries,
        "nbytes": found.nbytes,
        "max_bytes": found.max_bytes,
    }


def _cpu() -> dict[str, Any]:
    from ...jit.target import cpu_features, cpuinfo

    return {
        "model": cpuinfo().get("model name") or None,
        "processors": os.cpu_count(),
        "usable": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "digest": cpu_features(),
    }


def _torch() -> dict[str, Any]:
    from importlib.util import find_spec

    spec = find_spec("torch")
    return {"present": spec is not None, "location": spec.origin if spec else None}


# ---------------------------------------------------------------------------- ROCm


def rocm(*, probe: bool) -> dict[str, Any]:
    """Return what there is of ROCm; errors stand in their places."""
    libraries = _hip_libraries()
    found: dict[str, Any] = {
        "libraries": libraries,
        "kernel_driver": os.path.exists("/dev/kfd"),
        "gpus": _guarded(_gpus),
    }
    if probe:
        found["probe"] = _guarded(lambda: _ask(libraries)) if libraries else "no library to load"
    return found


def _hip_libraries() -> list[str]:
    """Return where the HIP runtime is, in the order in which it would be found."""
    from ...jit.settings import foreign

    given = foreign("IREE_HIP_DYLIB_PATH", "LD_LIBRARY_PATH")
    folders = [part.removeprefix("file:") for part in given["IREE_HIP_DYLIB_PATH"].split(";")]
    folders = [part for part in folders + given["LD_LIBRARY_PATH"].split(":") if part]
    places = [Path(f) if f.endswith(".so") else Path(f, _HIP) for f in folders]
    places += [Path(line) for line in _guarded_list(_ldconfig)]
    places += [Path("/opt/rocm/lib", _HIP), *Path("/opt").glob(f"rocm-*/lib/{_HIP}")]
    return list(dict.fromkeys(str(place) for place in places if os.path.exists(place)))


def _guarded_list(look: Callable[[], list[str]]) -> list[str]:
    try:
        return look()
    except Exception:
        return []


def _ldconfig() -> list[str]:
    import subprocess

    listing = subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, timeout=5, check=True
    ).stdout
    lines = [line for line in listing.splitlines() if line.strip().startswith(_HIP)]
    return [line.partition("=>")[2].strip() for line in lines]


def _gpus() -> list[str]:
    """Return the archs that the kernel driver shows, without loading anything."""
    found = []
    for place in sorted(Path("/sys/class/kfd/kfd/topology/nodes").glob("*/properties")):
        for line in place.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "gfx_target_version" and int(value):
                major, rest = divmod(int(value), 10000)
                minor, step = divmod(rest, 100)
                found.append(f"gfx{major}{minor}{step:x}")
    return found


_QUESTION = """
import ctypes, json, sys
hip = ctypes.CDLL(sys.argv[1])
version, count = ctypes.c_int(), ctypes.c_int()
errors = [
    hip.hipRuntimeGetVersion(ctypes.byref(version)),
    hip.hipGetDeviceCount(ctypes.byref(count)),
]
print(json.dumps({"runtime_version": version.value, "devices": count.value, "errors": errors}))
"""


def _ask(libraries: list[str]) -> dict[str, Any]:
    """Load the library where a crash or a hang does no harm."""
    from ...jit.child_process import question
    from ...jit.trust import unsafe_path

    if reason := unsafe_path(libraries[0]):
        return {"error": f"{libraries[0]} is not loaded: {reason}"}
    found = question(_QUESTION, libraries[0], timeout_s=30)
    return found if isinstance(found, dict) else {"error": found}
