# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A library in C as a file: finding it, building it, and copying it to where a host looks.

An installed package contains it.  A checkout, or a package that was built without a C compiler,
builds it at the first use, in the cache folder.  A library outside of the site-packages of its
Python has a record of that Python in a file next to it, ``<library>.python``, which
``python_host.h`` reads.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ... import __version__
from ...graph_api.errors import NotSupportedError
from ...graph_api.files import open_regular, read_file, replace_file
from ...jit import scratch
from ...jit.child_process import interpreter
from ...jit.settings import foreign
from ...jit.settings_table import Settings
from ...jit.trust import UnsafeError, opened, unsafe_path, unsafe_reason

log = logging.getLogger("hipdnn_iree.native")

__all__ = ["FLAGS", "NativeLibrary", "read_record", "record"]

_HEADERS = sorted(Path(__file__).resolve().parent.glob("*.h"))

# -z nodelete: hosts may unload the library, but Python in it goes on.
_SHARED = ("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,nodelete", "-Wl,-z,defs")
_COMMON = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wl,-s")
FLAGS = (*_COMMON, *_SHARED)


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeLibrary:
    """A library of the package.

    Attributes
    ----------
    name : str
        Of its file.
    title : str
        What messages call it.
    source : Path
        The C file, which includes ``python_host.h``.
    shipped : Path
        Where an installed package has it.
    cache : str
        Subfolder of the cache folder where it is built otherwise.
    exports : Path, optional
        A linker's version script, which names what is exported.
    program : bool
        It is a program, which includes nothing of ours.
    link : tuple of str
        Further flags of the linker.
    """

    name: str
    title: str
    source: Path
    shipped: Path
    cache: str
    exports: Path | None = None
    program: bool = False
    link: tuple[str, ...] = ()

    def find(self, settings: Settings) -> Path:
        """Return the library, which is built first if it was not shipped.

        Raises
        ------
        NotSupportedError
            If it has to be built and there is no C compiler, or the compiler fails.
        OSError
            If the cache folder cannot be written, or somebody else may write there.
        """
        if os.path.isfile(self.shipped):
            return self.shipped
        return self.build(settings.cache_dir / self.cache, settings)

    def build(self, folder: Path, settings: Settings) -> Path:
        """Build the library in a subfolder of its own, unless it exists already.

        Raises
        ------
        UnsafeError
            If somebody else may write into the folder, or exchange it: whoever loads the library
            runs what is there.
        """
        note = record(settings)
        own = sorted(self.source.parent.glob("*.h"))
        files = (self.source, *own, *_HEADERS, self.exports)
        sources = [path.read_bytes() for path in files if path]
        facts = (*sources, note.encode(), " ".join(FLAGS).encode(), __version__.encode())
        name = sha256(b"\0".join(facts)).hexdigest()[:16]
        wanted = folder / name / self.name
        with opened(folder, name, make=True) as place:
            if reason := unsafe_path(folder):
                raise UnsafeError(f"{reason}; HIPDNN_IREE_CACHE_DIR names another one", folder)
            if not all(_is_sound(part, place) for part in (self.name, f"{self.name}.python")):
                with tempfile.TemporaryDirectory(dir=folder) as made:
                    built = Path(made, self.name)
                    self._compile(built)
                    self._place(built, wanted, note)
        return wanted

    def install(self, folder: Path, settings: Settings) -> Path:
        """Copy the library into a host's folder, with its record, and return the copy.

        One that was not shipped is built anew: what lies in the cache folder is not passed on.

        Raises
        ------
        NotSupportedError
            As for `find`.
        OSError
            If the folder cannot be written.
        """
        source, wanted = self.shipped, folder / self.name
        folder.mkdir(parents=True, exist_ok=True)
        with scratch.folder() as place:
            if not os.path.isfile(source):
                source = Path(place, self.name)
                self._compile(source)
            self._place(source, wanted, record(settings))
        if reason := unsafe_path(wanted):
            log.warning("whoever uses %s runs what is in %s: %s", self.title, folder, reason)
        return wanted

    def _compile(self, out: Path) -> None:
        chosen = foreign("CC")["CC"]
        compiler = next(filter(None, map(shutil.which, [chosen, "cc", "gcc", "clang"])), None)
        if compiler is None:
            raise NotSupportedError(
                f"{self.title} is not in this installation, and there is no C compiler to build "
                "it with (looked for $CC, cc, gcc, clang)"
            )
        script = [f"-Wl,--version-script={self.exports}"] if self.exports else []
        script += self.link
        flags = _COMMON if self.program else FLAGS
        words = [compiler, *flags, *script, f'-DLIBRARY_VERSION="{__version__}"', "-o", str(out)]
        done = subprocess.run(
            [*words, str(self.source), "-ldl", "-lpthread"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise NotSupportedError(f"{compiler} cannot build {self.title}:\n{done.stderr}")

    def _place(self, source: Path, wanted: Path, note: str) -> None:
        """Write a library and its record, each atomically; the record comes first."""
        replace_file(f"{wanted}.python", note.encode(), mode=0o644)  # any user of the host may read
        replace_file(wanted, source.read_bytes(), mode=0o755 if self.program else 0o644)


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


def record(settings: Settings) -> str:
    """Return the record of the running Python: lines of ``key = value``."""
    package = Path(__file__).resolve().parents[2]
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
