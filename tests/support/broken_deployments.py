# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Deployments of the plugin that do not work, as data: how each is made, and its cause."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipdnn_iree.hipdnn_plugin.library import LIBRARY, NAME
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.native.deployment import _RUN
from hipdnn_iree.provider.native.library import read_record, record

HIP = Path(__file__).parents[1] / "plugin" / "libamdhip64.c"
SITE = Path(sysconfig.get_path("purelib"))
STRANGER = 12345  # another user


@dataclass
class Deployment:
    """A plugin folder with a copy of the plugin, and the environment of hosts and of the doctor.

    Attributes
    ----------
    place : Path
        Folder for whatever it needs.
    folder : Path
        hipDNN's plugin folder.
    env : dict
    named : bool
        Whether the doctor is given the folder; else it finds it as hipDNN does.
    as_user : bool
        Without root's right to read and write everything.
    python : Path
        The one that the doctor runs in.
    """

    place: Path
    folder: Path = field(init=False)
    env: dict[str, str] = field(default_factory=dict)
    named: bool = True
    as_user: bool = False
    python: Path = Path(sys.executable)

    def __post_init__(self) -> None:
        """Make a sound one, beside a hipDNN."""
        self.folder = self.place / "engines"
        self.folder.mkdir()
        (self.place / "rocm").mkdir()
        (self.place / "rocm" / "libhipdnn_backend.so").touch()
        self.env["LD_LIBRARY_PATH"] = str(self.place / "rocm")
        self.install(LIBRARY.find(settings()))

    @property
    def copy(self) -> Path:
        """The plugin in its folder."""
        return self.folder / NAME

    def install(self, library: Path, name: str = NAME) -> None:
        """Put a library with the usual record into the folder."""
        shutil.copy(library, self.folder / name)
        Path(self.folder, f"{name}.python").write_text(record(settings()))

    def write_record(self, text: str = "", **pairs: object) -> None:
        """Write the record of the copy."""
        lines = [f"{key} = {value}\n" for key, value in pairs.items()]
        Path(f"{self.copy}.python").write_text(text + "".join(lines))

    def packages(self) -> str:
        """Return the folder that the usual record names."""
        return read_record(self.copy)["path"]

    def environment(self, *without: str) -> Path:
        """Make a virtual environment with the packages of this one but some; return its Python.

        A name is a file of site-packages, or that of a part of a namespace package, as in
        ``iree/compiler``; ``*`` leaves all out.
        """
        made = self.place / "venv"
        venv.create(made, symlinks=True)
        (site,) = made.glob("lib/python*/site-packages")
        for item in SITE.iterdir() if "*" not in without else ():
            inside = [name for name in without if name.startswith(f"{item.name}/")]
            if inside:
                (site / item.name).mkdir()
                for part in item.iterdir():
                    if f"{item.name}/{part.name}" not in inside:
                        (site / item.name / part.name).symlink_to(part)
            elif item.name not in without:
                (site / item.name).symlink_to(item)
        return made / "bin" / "python"

    def hip(self, *flags: str) -> None:
        """Stand in for ROCm's library."""
        out = self.place / "rocm" / "libamdhip64.so"
        subprocess.run(["cc", "-shared", "-fPIC", *flags, "-o", out, HIP], check=True)
        self.env["HIPDNN_IREE_PLUGIN_DEVICE"] = "hip"

    def variant(self, pattern: str, text: str) -> None:
        """Install a library whose source differs."""
        header = LIBRARY.source.parents[2] / "provider" / "native"
        changed, count = re.subn(pattern, text, LIBRARY.source.read_text(), count=1)
        assert count == 1, pattern
        source = self.place / "plugin.c"
        source.write_text(changed.replace("../../provider/native", str(header)))
        replace(LIBRARY, source=source)._compile(self.copy)


def stand_ins(folder: Path, suffix: str = ".abi3.so") -> Path:
    """Make a folder with this package and with names of those that it needs, for any Python."""
    for need in _RUN:
        module = folder / need.package / f"{need.module}{suffix}"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.touch()
    package = dict(line.split(" = ") for line in record(settings()).splitlines())["path"]
    (folder / "package.pth").write_text(f"{package}\n")
    return folder


def pythons() -> list[Path]:
    """Other Pythons of this machine: the system's, and those beside the one that runs this."""
    places = [Path("/usr/bin/python3"), *Path(sys.base_prefix).parent.glob("3.*/bin/python3")]
    return [place for place in places if shared_library(place) is not None]


def shared_library(python: Path) -> Path | None:
    """Return the libpython of a Python that the plugin works with."""
    version = python.resolve().name.removeprefix("python3.")
    base = python.resolve().parent.parent
    shared = [*base.glob(f"lib/libpython3.{version}.so.1.0")]
    shared += base.glob(f"lib/*-linux-gnu/libpython3.{version}.so.1.0")
    return shared[0] if version in ("11", "12", "13") and shared else None


def _rename(d: Deployment, name: str) -> Path:
    return d.copy.rename(d.folder / name)


def _no_folder(d: Deployment) -> None:
    shutil.rmtree(d.folder)


def _empty_folder(d: Deployment) -> None:
    d.copy.unlink()


def _variable_of_no_folder(d: Deployment) -> None:
    d.env["HIPDNN_PLUGIN_DIR"], d.named = str(d.place / "nowhere"), False


def _versioned_name(d: Deployment) -> None:
    _rename(d, f"{NAME}.1")


def _link_to_versioned_name(d: Deployment) -> None:
    (d.place / "lib").mkdir()
    d.copy.symlink_to(d.copy.rename(d.place / "lib" / f"{NAME}.1"))


def _dangling_link(d: Deployment) -> None:
    d.copy.unlink()
    d.copy.symlink_to(d.place / "gone.so")


def _truncated(d: Deployment) -> None:
    d.copy.write_bytes(d.copy.read_bytes()[:3000])


def _other_architecture(d: Deployment) -> None:
    data = bytearray(d.copy.read_bytes())
    data[18:20] = (243).to_bytes(2, "little")  # RISC-V
    d.copy.write_bytes(data)


def _unreadable(d: Deployment) -> None:
    d.copy.chmod(0)
    d.as_user = True


def _writable_by_all(d: Deployment) -> None:
    d.copy.chmod(0o666)


def _of_a_stranger(d: Deployment) -> None:
    os.chown(d.copy, STRANGER, STRANGER)


def _two_copies(d: Deployment) -> None:
    d.install(d.copy, "other.so")


def _no_backend(d: Deployment) -> None:
    (d.place / "rocm" / "libhipdnn_backend.so").unlink()


def _no_compiler_of_c(d: Deployment) -> None:
    d.env |= {"PATH": str(d.place), "CC": "", "HIPDNN_IREE_CACHE_DIR": str(d.place / "cache")}


def _no_record(d: Deployment) -> None:
    Path(f"{d.copy}.python").unlink()


def _record_writable_by_all(d: Deployment) -> None:
    Path(f"{d.copy}.python").chmod(0o666)


def _unreadable_record(d: Deployment) -> None:
    Path(f"{d.copy}.python").chmod(0)
    d.as_user = True


def _record_of_a_stranger(d: Deployment) -> None:
    os.chown(f"{d.copy}.python", STRANGER, STRANGER)


def _damaged_record(d: Deployment) -> None:
    d.write_record("\0\0\0\0 = \n")


def _removed_environment(d: Deployment) -> None:
    d.write_record(python=d.environment("*"), version="3.11")
    shutil.rmtree(d.place / "venv")


def _variable_of_no_python(d: Deployment) -> None:
    d.env["HIPDNN_IREE_PYTHON"] = str(d.place / "nowhere" / "python3")


def _variable_of_another_program(d: Deployment) -> None:
    d.env["HIPDNN_IREE_PYTHON"] = "/bin/sh"


def _record_of_another_program(d: Deployment) -> None:
    d.write_record(python="/bin/sh")


def _no_standard_library(d: Deployment) -> None:
    (d.place / "bin").mkdir()
    python = Path(shutil.copy("/bin/sh", d.place / "bin" / "python3.11"))
    d.write_record(python=python)


def _old_python(d: Deployment) -> None:
    d.write_record(python=_stand_in(d, "3.10"), version="3.10")


def _stand_in(d: Deployment, version: str) -> Path:
    """Make an interpreter without a libpython, as one that is linked statically."""
    python = d.place / "bin" / f"python{version}"
    encodings = d.place / "lib" / f"python{version}" / "encodings" / "__init__.py"
    for file in (python, encodings):
        file.parent.mkdir(parents=True)
        file.touch()
    python.chmod(0o755)
    return python


def _libpython_is_another_library(d: Deployment) -> None:
    d.hip()
    del d.env["HIPDNN_IREE_PLUGIN_DEVICE"]
    d.env["HIPDNN_IREE_LIBPYTHON"] = str(d.place / "rocm" / "libamdhip64.so")


def _libpython_of_another_version(d: Deployment) -> None:
    here = f"python3.{sys.version_info[1]}"
    other = next((p for p in pythons() if p.resolve().name != here), None)
    if other is None:
        _libpython_is_another_library(d)
    else:
        d.env["HIPDNN_IREE_LIBPYTHON"] = str(shared_library(other))


def _no_libpython(d: Deployment) -> None:
    d.write_record(python=_stand_in(d, "3.99"), version="3.99")


def _environment_without_packages(d: Deployment) -> None:
    d.write_record(python=d.environment("*"))


def _environment_without_dependencies(d: Deployment) -> None:
    d.write_record(python=d.environment("*"), path=d.packages())


def _no_numpy(d: Deployment) -> None:
    d.write_record(python=d.environment("numpy"))


def _no_numpy_for_the_doctor(d: Deployment) -> None:
    d.python = d.environment("numpy")
    d.write_record(python=d.python)


def _no_runtime(d: Deployment) -> None:
    d.write_record(python=d.environment("iree/runtime", "iree/_runtime_libs"))


def _packages_of_another_version(d: Deployment) -> None:
    stand_ins(d.place / "site", ".cpython-399-x86_64-linux-gnu.so")
    d.write_record(python=d.environment("*"), path=d.place / "site")


def _older_library(d: Deployment) -> None:
    d.variant(r"#define TABLE_VERSION \d+", "#define TABLE_VERSION 2")


def _older_package(d: Deployment) -> None:
    """Its own check of the table has other words."""
    entry = d.place / "site" / "hipdnn_iree" / "hipdnn_plugin" / "entry.py"
    entry.parent.mkdir(parents=True)
    entry.write_text("def fill(address):\n    raise RuntimeError('does not go with it')\n")
    d.write_record(python=d.environment("*"), path=d.place / "site")


def _stale_copy(d: Deployment) -> None:
    version = '#undef LIBRARY_VERSION\n#define LIBRARY_VERSION "0.0.1"\n'
    d.variant("#define ENTRY", f"{version}#define ENTRY")


def _no_compiler(d: Deployment) -> None:
    d.write_record(python=d.environment("iree/compiler"))
    d.env["HIPDNN_IREE_CACHE_DIR"] = str(d.place / "cache")  # no test before has filled it


def _no_compiler_in_the_python_of_the_variable(d: Deployment) -> None:
    d.env["HIPDNN_IREE_PYTHON"] = str(d.environment("torch_mlir"))
    d.env["HIPDNN_IREE_CACHE_DIR"] = str(d.place / "cache")


def _nothing_precompiled(d: Deployment) -> None:
    d.env["HIPDNN_IREE_REQUIRE_PRECOMPILED"] = "on"
    d.env["HIPDNN_IREE_CACHE_DIR"] = str(d.place / "cache")


def _cache_is_a_file(d: Deployment) -> None:
    (d.place / "cache").touch()
    d.env["HIPDNN_IREE_CACHE_DIR"] = str(d.place / "cache")


def _cache_of_a_stranger(d: Deployment) -> None:
    (d.place / "cache").mkdir()
    os.chown(d.place / "cache", STRANGER, STRANGER)
    d.env["HIPDNN_IREE_CACHE_DIR"] = str(d.place / "cache")


def _cache_that_cannot_be_written(d: Deployment) -> None:
    (d.place / "cache").mkdir(mode=0o500)
    d.env["HIPDNN_IREE_CACHE_DIR"] = str(d.place / "cache")
    d.as_user = True


def _no_hip(d: Deployment) -> None:
    d.hip()
    (d.place / "rocm" / "libamdhip64.so").write_bytes(b"no library")


def _no_device(d: Deployment) -> None:
    d.hip("-DDEVICES=0")


def _other_gpu(d: Deployment) -> None:
    d.hip('-DARCH="gfx906"')


def _wrong_setting(d: Deployment) -> None:
    d.env["HIPDNN_IREE_OPT_LEVEL"] = "O9"


LOADER, PLUGIN, NOBODY = "loader", "plugin", "nobody"
"""Who tells a host: the dynamic loader, the plugin's log, or nobody, as nothing of it is loaded."""

BROKEN: Mapping[Callable[[Deployment], None], tuple[str, str]] = {
    _no_folder: ("NO_COPY", NOBODY),
    _empty_folder: ("NO_COPY", NOBODY),
    _variable_of_no_folder: ("NO_COPY", NOBODY),
    _versioned_name: ("NOT_LOADED", NOBODY),
    _link_to_versioned_name: ("NOT_LOADED", NOBODY),
    _dangling_link: ("NOT_LOADED", NOBODY),
    _truncated: ("NO_LIBRARY", LOADER),
    _other_architecture: ("NO_LIBRARY", LOADER),
    _unreadable: ("NO_LIBRARY", LOADER),
    _writable_by_all: ("UNSAFE_LIBRARY", PLUGIN),
    _of_a_stranger: ("UNSAFE_LIBRARY", PLUGIN),
    _two_copies: ("TWO_COPIES", NOBODY),
    _no_backend: ("NO_BACKEND", NOBODY),
    _no_compiler_of_c: ("NOT_BUILT", NOBODY),
    _no_record: ("NO_RECORD", PLUGIN),
    _record_writable_by_all: ("UNSAFE_RECORD", PLUGIN),
    _unreadable_record: ("UNSAFE_RECORD", PLUGIN),
    _record_of_a_stranger: ("UNSAFE_RECORD", PLUGIN),
    _damaged_record: ("DAMAGED_RECORD", PLUGIN),
    _removed_environment: ("NO_PYTHON", PLUGIN),
    _variable_of_no_python: ("PYTHON_VARIABLE", PLUGIN),
    _variable_of_another_program: ("PYTHON_VARIABLE", PLUGIN),
    _record_of_another_program: ("NOT_PYTHON", PLUGIN),
    _no_standard_library: ("NOT_PYTHON", PLUGIN),
    _old_python: ("NOT_PYTHON", PLUGIN),
    _libpython_is_another_library: ("LIBPYTHON_VARIABLE", PLUGIN),
    _libpython_of_another_version: ("LIBPYTHON_VARIABLE", PLUGIN),
    _no_libpython: ("NO_LIBPYTHON", PLUGIN),
    _environment_without_packages: ("NO_PACKAGE", PLUGIN),
    _environment_without_dependencies: ("MISSING", PLUGIN),
    _no_numpy: ("MISSING", PLUGIN),
    _no_numpy_for_the_doctor: ("MISSING", PLUGIN),
    _no_runtime: ("MISSING", PLUGIN),
    _packages_of_another_version: ("OTHER_VERSION", PLUGIN),
    _older_library: ("OTHER_LIBRARY", PLUGIN),
    _older_package: ("NOT_STARTED", PLUGIN),
    _stale_copy: ("STALE", PLUGIN),
    _no_compiler: ("NO_COMPILER", PLUGIN),
    _no_compiler_in_the_python_of_the_variable: ("NO_COMPILER", PLUGIN),
    _nothing_precompiled: ("NOT_PRECOMPILED", PLUGIN),
    _cache_is_a_file: ("CACHE", PLUGIN),
    _cache_of_a_stranger: ("CACHE", PLUGIN),
    _cache_that_cannot_be_written: ("CACHE", PLUGIN),
    _no_hip: ("NO_HIP", PLUGIN),
    _no_device: ("NO_DEVICE", PLUGIN),
    _other_gpu: ("OTHER_DEVICE", PLUGIN),
    _wrong_setting: ("SETTING", PLUGIN),
}
"""How a deployment is broken -> its cause, and who tells a host of it."""
