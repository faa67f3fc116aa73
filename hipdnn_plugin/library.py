"""The plugin library as a file: finding it, building it, and copying it into a hipDNN folder.

An installed package contains it in ``engines/``.  A checkout, or a package that was built without
a C compiler, builds it at the first use, in the cache folder.  A library outside of the
site-packages of its Python has a record of that Python in a file next to it, ``<library>.python``,
which ``native/plugin.c`` reads.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from .. import __version__
from ..graph_api.errors import NotSupportedError
from ..graph_api.files import open_regular, read_file, replace_file
from ..jit import scratch
from ..jit.child_process import interpreter
from ..jit.settings import foreign
from ..jit.settings_table import Settings
from ..jit.trust import UnsafeError, opened, unsafe_path, unsafe_reason

log = logging.getLogger("hipdnn_iree.plugin")

__all__ = ["NAME", "build", "install", "library", "read_record", "record"]

NAME = "libhipdnn_iree_plugin.so"
"""hipDNN opens regular files that end in ``.so``, whatever they are called otherwise."""

_HERE = Path(__file__).resolve().parent
SOURCE = _HERE / "native" / "plugin.c"
_SHIPPED = _HERE / "engines" / NAME

# -z nodelete: hosts may unload the library, but Python in it goes on.
FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden"),
    *("-Wl,-z,nodelete", "-Wl,-z,defs", "-Wl,-s"),
)


def library(settings: Settings) -> Path:
    """Return the library, which is built first if it was not shipped.

    Raises
    ------
    NotSupportedError
        If it has to be built and there is no C compiler, or the compiler fails.
    OSError
        If the cache folder cannot be written, or somebody else may write there.
    """
    return _SHIPPED if os.path.isfile(_SHIPPED) else build(settings.cache_dir / "plugin", settings)


def build(folder: Path, settings: Settings) -> Path:
    """Build the library in a subfolder of its own, unless it exists already.

    Raises
    ------
    UnsafeError
        If somebody else may write into the folder, or exchange it: whoever loads the library runs
        what is there.
    """
    source, note = SOURCE.read_bytes(), record(settings)
    facts = (source, note.encode(), " ".join(FLAGS).encode(), __version__.encode())
    name = sha256(b"\0".join(facts)).hexdigest()[:16]
    wanted = folder / name / NAME
    with opened(folder, name, make=True) as place:
        if reason := unsafe_path(folder):
            raise UnsafeError(f"{reason}; HIPDNN_IREE_CACHE_DIR names another one", folder)
        if not all(_is_sound(part, place) for part in (NAME, f"{NAME}.python")):
            with tempfile.TemporaryDirectory(dir=folder) as made:
                built = Path(made, NAME)
                _compile(built)
                _place(built, wanted, note)
    return wanted


def _is_sound(name: str, folder: int) -> bool:
    """Whether there is such a file, and only its user may write it."""
    try:
        fd = open_regular(name, dir_fd=folder)
    except OSError:
        return False
    try:
        return not unsafe_reason(os.fstat(fd))
    finally:
        os.close(fd)


def install(folder: Path, settings: Settings) -> Path:
    """Copy the library into a hipDNN plugin folder, with its record, and return the copy.

    One that was not shipped is built anew: what lies in the cache folder is not passed on.

    Raises
    ------
    NotSupportedError
        As for `library`.
    OSError
        If the folder cannot be written.
    """
    source, wanted = _SHIPPED, folder / NAME
    folder.mkdir(parents=True, exist_ok=True)
    with scratch.folder() as place:
        if not os.path.isfile(source):
            source = Path(place, NAME)
            _compile(source)
        _place(source, wanted, record(settings))
    if reason := unsafe_path(wanted):
        log.warning("whoever uses the plugin runs what is in %s: %s", folder, reason)
    return wanted


def record(settings: Settings) -> str:
    """Return the record of the running Python: lines of ``key = value``."""
    package = Path(__file__).resolve().parent.parent
    path = package.parent
    if os.path.isfile(package / "pyproject.toml"):  # a checkout, whose folders have generic names
        path = (
            package / "typings" if os.path.isdir(package / "typings" / "hipdnn_iree") else package
        )
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    python = interpreter(settings.compiler_python)
    return f"python = {python}\nversion = {version}\npath = {path}\n"


def read_record(library: Path) -> dict[str, str]:
    """Return the record of a library; empty if there is none."""
    try:
        text = read_file(f"{library}.python").decode("utf-8", "surrogateescape")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def _place(source: Path, wanted: Path, note: str) -> None:
    """Write a library and its record, each atomically; the record comes first."""
    for path, data in ((Path(f"{wanted}.python"), note.encode()), (wanted, source.read_bytes())):
        replace_file(path, data, mode=0o644)  # any user of the host may read it


def _compile(out: Path) -> None:
    chosen = foreign("CC")["CC"]
    compiler = next(filter(None, map(shutil.which, [chosen, "cc", "gcc", "clang"])), None)
    if compiler is None:
        raise NotSupportedError(
            "the plugin library is not in this installation, and there is no C compiler to build "
            "it with (looked for $CC, cc, gcc, clang)"
        )
    words = [compiler, *FLAGS, f'-DPLUGIN_VERSION="{__version__}"', "-o", str(out), str(SOURCE)]
    done = subprocess.run(
        [*words, "-ldl", "-lpthread"], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        raise NotSupportedError(f"{compiler} cannot build the plugin library:\n{done.stderr}")
