"""What would stop hipDNN from using the plugin, in words.

Libraries are only ever loaded in processes of their own: foreign plugins and ROCm may crash.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import __version__
from ..graph_api.errors import HipdnnIreeError
from ..jit.child_process import question
from ..jit.runtime.hip import KERNEL_DRIVER
from ..jit.settings import foreign
from ..jit.settings_table import Settings
from ..jit.trust import unsafe_path
from ..provider.engines.foreign import discovery
from ..provider.engines.foreign.discovery import BACKEND, backends
from ..provider.native.library import read_record
from .devices import place_of
from .library import LIBRARY

__all__ = ["Finding", "examine"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    check : str
        What was looked at.
    state : str
        ``"ok"``, ``"note"`` (may be meant) or ``"problem"`` (hipDNN cannot use the plugin so).
    text : str
        What was found, and what to do about it.
    """

    check: str
    state: str
    text: str

    def as_dict(self) -> dict[str, str]:
        """Return the record as a JSON-ready mapping."""
        return {"check": self.check, "state": self.state, "text": self.text}


# A plugin as hipDNN's backend opens it.  Argument: the file.
_LOAD = """
import ctypes, json, os, sys
lib = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL)
def text(function):
    found = ctypes.c_char_p()
    status = function(ctypes.byref(found))
    return (found.value or b"").decode(errors="replace") if not status else ""
kind, count = ctypes.c_int(), ctypes.c_uint32()
lib.hipdnnPluginGetType(ctypes.byref(kind))
about = {"name": text(lib.hipdnnPluginGetName), "version": text(lib.hipdnnPluginGetVersion)}
about["type"] = kind.value
lib.hipdnnEnginePluginGetAllEngineIds(None, 0, ctypes.byref(count))
ids = (ctypes.c_int64 * count.value)()
lib.hipdnnEnginePluginGetAllEngineIds(ids, count.value, ctypes.byref(count))
about["ids"] = ids[:]
if sys.argv[2] == "start":
    handle, error = ctypes.c_void_p(), ctypes.c_char_p()
    about["status"] = lib.hipdnnEnginePluginCreate(ctypes.byref(handle))
    lib.hipdnnPluginGetLastErrorString(ctypes.byref(error))
    about["error"] = (error.value or b"").decode(errors="replace")
    if not about["status"]:
        lib.hipdnnEnginePluginDestroy(handle)
print("\\n" + json.dumps(about), flush=True)
os._exit(0)  # what it does at the end of a process is not asked
"""


def _ask(library: Path, how: str = "look") -> dict[str, object] | str:
    """Load a plugin in a process of its own; return what it says, or why it does not."""
    if reason := unsafe_path(library):
        return f"it was not tried: {reason}"
    return question(_LOAD, str(library), how)


def examine(settings: Settings, folder: Path | None = None) -> list[Finding]:
    """Check everything that hipDNN needs; ``folder`` is the plugin folder, if it is known."""
    checks: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
        _packages,
        _library,
        _libpython,
        _rocm,
        _backend,
        lambda now: _folders([folder] if folder else discovery.folders(now, every=True)),
    )
    found: list[Finding] = []
    for check in checks:
        try:
            found += check(settings)
        except (OSError, HipdnnIreeError) as error:
            found.append(Finding(getattr(check, "__name__", "").strip("_"), "problem", str(error)))
    return found


def _packages(_: Settings) -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    needed = ("iree-base-compiler", "iree-base-runtime", "torch-mlir", "numpy", "ml_dtypes")
    missing = []
    for name in needed:
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        text = f"{', '.join(missing)} not installed for {sys.executable}; pip install hipdnn-iree"
        yield Finding("packages", "problem", text)
    else:
        yield Finding("packages", "ok", f"all there for {sys.executable}")


def _library(settings: Settings) -> Iterator[Finding]:
    path = LIBRARY.find(settings)
    found = _ask(path, "start")
    if isinstance(found, str):
        yield Finding("library", "problem", f"{path} does not load: {found}")
    elif found["status"]:
        yield Finding("library", "problem", f"{path} does not start: {found['error']}")
    else:
        yield Finding("library", "ok", f"{path} loads and starts in a program with Python")


def _libpython(_: Settings) -> Iterator[Finding]:
    """Whether a program without Python can start it; the places are those of plugin.c."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    chosen = foreign("HIPDNN_IREE_LIBPYTHON")["HIPDNN_IREE_LIBPYTHON"]
    name = f"libpython{version}.so.1.0"
    base = Path(sys.base_prefix)
    places = [base / "lib", *base.glob("lib/*-linux-gnu"), base / "lib64"]
    found = [Path(chosen)] if chosen else [place / name for place in places]
    there = next(filter(os.path.isfile, found), None)
    if there is not None:
        yield Finding("libpython", "ok", f"{there}, for programs without Python")
        return
    if not chosen and _opens(name):
        yield Finding("libpython", "ok", f"{name} of the system, for programs without Python")
        return
    hint = f"install it (Debian: apt install libpython{version}), or set HIPDNN_IREE_LIBPYTHON"
    if chosen:
        name, hint = chosen, "HIPDNN_IREE_LIBPYTHON names it"
    text = f"no {name} for {sys.executable}: only programs with Python can use the plugin; {hint}"
    yield Finding("libpython", "problem", text)


def _opens(library: str) -> bool:
    """Whether the system's loader finds a library."""
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('{}')"
    return isinstance(question(code, library), dict)


def _rocm(settings: Settings) -> Iterator[Finding]:
    chosen = settings.plugin_device
    if chosen == "cpu":
        yield Finding(
            "device", "note", "the CPU with host pointers, as HIPDNN_IREE_PLUGIN_DEVICE says"
        )
        return
    if chosen == "auto" and not os.path.exists(KERNEL_DRIVER):
        text = f"no AMD GPU ({KERNEL_DRIVER} is missing): the CPU serves, with host pointers"
        yield Finding("device", "note", text)
        return
    try:
        place = place_of(0, chosen)
    except HipdnnIreeError as error:
        yield Finding("device", "problem", str(error))
    else:
        state = "note" if place.target.is_cpu else "ok"
        yield Finding("device", state, f"graphs are compiled for {place.target}")


def _backend(settings: Settings) -> Iterator[Finding]:
    found = backends(settings)
    if not found:
        text = f"{BACKEND} not found (LD_LIBRARY_PATH, ROCM_PATH, /opt/rocm, torch): install hipDNN"
        yield Finding("backend", "problem", text)
    for path in found:
        yield Finding("backend", "ok", str(path))


def _folders(places: list[Path]) -> Iterator[Finding]:
    from ..provider.engine_ids import engine_id
    from ..provider.engines.iree.iree_engine import IreeEngine

    own = engine_id(IreeEngine.NAME)
    for place in places:
        try:
            inside = sorted(place.iterdir())
        except OSError as error:
            what = f"cannot be read ({error.strerror})"
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                what = "does not exist"
            text = f"{place} {what}; hipdnn-iree plugin install {place}"
            yield Finding("folder", "problem", text)
            continue
        loaded = []
        for path in inside:  # hipDNN's order, in which the first one wins an id
            if ".so" not in path.name or path.name.endswith(".python"):
                continue
            ours = path.name.startswith("libhipdnn_iree_plugin")
            real = Path(os.path.realpath(path))
            if real.suffix != ".so":
                what = f"{path} ends as {real.name}, which hipDNN does not load"
                yield Finding("file", "problem" if ours else "note", f"{what}; it wants *.so")
                continue
            about = _ask(path)
            if isinstance(about, str):
                state = "problem" if ours else "note"
                yield Finding("file", state, f"{path} does not load: {about}")
                continue
            ids = about["ids"]
            if isinstance(ids, list) and own in ids:
                loaded.append(path)
                yield _installed(path, str(about["version"]))
        if not loaded:
            text = f"the plugin is not in {place}; hipdnn-iree plugin install {place}"
            yield Finding("folder", "problem", text)
        for other in loaded[1:]:
            text = f"{other} has the same engine id as {loaded[0]}, which comes first; remove one"
            yield Finding("engine id", "problem", text)


def _installed(path: Path, version: str) -> Finding:
    """Return what is to be said about a copy in a hipDNN folder."""
    real = Path(os.path.realpath(path))
    note = read_record(real)
    python = note.get("python", "")
    again = f"hipdnn-iree plugin install {path.parent}"
    if "site-packages" not in real.parts and not note:
        return Finding("file", "problem", f"{path} has no record of its Python; {again}")
    if note and not os.path.exists(python):
        return Finding("file", "problem", f"{path} belongs to {python}, which is gone; {again}")
    if version != __version__:
        text = f"{path} is of version {version}, the package of {__version__}; {again}"
        return Finding("file", "note", text)
    return Finding("file", "ok", f"{path}{f', for {python}' if python else ''}")
