# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is shipped, and that each form of installation works; without network."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import hipdnn_iree
import pytest

FOLDERS = ("graph_api", "jit", "provider", "hipdnn_plugin", "emulation")
DATA = ("suites",)
VERSION = hipdnn_iree.__version__
ENGINES = "hipdnn_iree/hipdnn_plugin/engines"
LIBRARY, HOST = f"{ENGINES}/libhipdnn_iree_plugin.so", f"{ENGINES}/hipdnn-iree-host"
EMULATED = "hipdnn_iree/emulation/hip/lib/libamdhip64.so"
PROVIDER = "hipdnn_iree/provider/onnx/library/libhipdnn_iree_onnx.so"

BUILD = "import sys, scikit_build_core.build as b; print(getattr(b, 'build_' + sys.argv[1])({!r}))"

# Run by an interpreter that has the package installed; prints where it comes from.
PROBE = """
import sys, importlib.metadata, importlib.util
import hipdnn_iree, hipdnn_iree.graph_api.graph, hipdnn_iree.jit.settings
from hipdnn_iree import Graph, Target
assert hipdnn_iree.__version__ == importlib.metadata.version("hipdnn-iree")
assert sys.modules[Graph.__mro__[1].__module__] is hipdnn_iree.graph_api.graph
for name in ("graph_api", "jit", "provider", "hipdnn_plugin", "emulation", "tests"):
    assert importlib.util.find_spec(name) is None, name
print(hipdnn_iree.jit.__file__)
"""

# Loads the plugin as hipDNN does; prints its version and the status of a first handle.
START = """
import ctypes, sys
lib, text, handle = ctypes.CDLL(sys.argv[1]), ctypes.c_char_p(), ctypes.c_void_p()
assert lib.hipdnnPluginGetVersion(ctypes.byref(text)) == 0
print(text.value.decode(), lib.hipdnnEnginePluginCreate(ctypes.byref(handle)))
"""


def build(kind: str, source: Path, out: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(str(out)), kind],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return out / done.stdout.split()[-1]


class Built(NamedTuple):
    """Archives made from the checkout, and the wheel made from the source distribution."""

    sdist: Path
    wheel: Path
    wheel_from_sdist: Path


@pytest.fixture(scope="module")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    out = tmp_path_factory.mktemp("dist")
    sdist, wheel = build("sdist", checkout, out), build("wheel", checkout, out)
    with tarfile.open(sdist) as archive:
        # Python 3.11.2, as Debian 12 has it, knows no filters; 3.13 warns when none is given.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(out / "unpacked", **safely)
    second = out / "second"
    second.mkdir()
    return Built(sdist, wheel, build("wheel", out / "unpacked" / f"hipdnn_iree-{VERSION}", second))


def names_in(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_wheel_holds_the_package_and_nothing_else(built: Built, checkout: Path) -> None:
    expected = set()
    for folder in ("hipdnn_iree", *FOLDERS, *DATA):
        for path in (checkout / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                inner = str(path.relative_to(checkout))
                expected.add(f"hipdnn_iree/{inner.removeprefix('hipdnn_iree/')}")
    info = f"hipdnn_iree-{VERSION}.dist-info"
    files = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    expected |= {f"{info}/{name}" for name in files}
    assert names_in(built.wheel) == expected | {LIBRARY, HOST, PROVIDER, EMULATED}
    assert zipfile.ZipFile(built.wheel).getinfo(HOST).external_attr >> 16 & 0o111  # a program
    assert {f"hipdnn_iree/{folder}/py.typed" for folder in FOLDERS} <= expected
    assert {
        "hipdnn_iree/__init__.py",
        "hipdnn_iree/__main__.py",
        "hipdnn_iree/py.typed",
    } <= expected


def test_wheel_metadata(built: Built) -> None:
    platform = sysconfig.get_platform().replace("-", "_")
    assert built.wheel.name == f"hipdnn_iree-{VERSION}-py3-none-{platform}.whl"
    with zipfile.ZipFile(built.wheel) as archive:
        info = f"hipdnn_iree-{VERSION}.dist-info"
        facts = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        assert "Root-Is-Purelib: false" in archive.read(f"{info}/WHEEL").decode()
        script = "hipdnn-iree = hipdnn_iree.provider.cli.main:main"
        assert script in archive.read(f"{info}/entry_points.txt").decode().splitlines()
        assert b"LLVM Exceptions" in archive.read(f"{info}/licenses/LICENSE")
    assert facts["Version"] == VERSION
    assert facts["License-Expression"] == "Apache-2.0 WITH LLVM-exception"
    assert facts["Requires-Python"] == ">=3.11"
    urls = dict(line.split(", ") for line in facts.get_all("Project-URL", []))
    assert {"Source", "Documentation", "Changelog", "Issues"} <= set(urls)
    assert set(facts.get_all("Provides-Extra", [])) == {"cluster", "torch", "dev", "docs", "onnx"}
    needs = [line for line in facts.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert all("<" in line for line in needs), "a dependency without an upper bound"


def test_sdist_keeps_the_checkout_and_makes_the_same_wheel(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
    tops = {name.partition("/")[0] for name in members}
    assert {*FOLDERS, "hipdnn_iree", "tests", "scripts", "pyproject.toml"} <= tops
    assert {"README.md", "LICENSE", "PKG-INFO"} <= tops
    assert not {"typings", ".git", ".venv", ".mypy_cache", "build", "dist"} & tops
    assert not [name for name in members if "__pycache__" in name]
    with zipfile.ZipFile(built.wheel) as one, zipfile.ZipFile(built.wheel_from_sdist) as two:
        assert sorted(one.namelist()) == sorted(two.namelist())
        for name in one.namelist():
            assert one.read(name) == two.read(name), name


class Environment:
    """A virtual environment of its own, without pip; dependencies come from this run's."""

    def __init__(self, root: Path) -> None:
        venv.create(root, symlinks=True)
        self.bin = root / "bin"
        self.site = next(root.glob("lib/python*/site-packages"))
        self.outside = root / "outside"
        self.outside.mkdir()

    def pip(self, *arguments: str) -> None:
        pip = (sys.executable, "-m", "pip", "--python", self.bin / "python")
        done = subprocess.run(
            [*pip, "--disable-pip-version-check", *arguments],
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def environ(self) -> dict[str, str]:
        return {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}

    def run(self, program: str, *arguments: str) -> str:
        """Run a program in a foreign folder, with this run's dependencies within reach."""
        borrowed = self.site / "borrowed.pth"
        borrowed.write_text(sysconfig.get_path("purelib"), encoding="utf-8")
        try:
            done = subprocess.run(
                [self.bin / program, *arguments],
                cwd=self.outside,
                env=self.environ(),
                capture_output=True,
                text=True,
                timeout=300,
            )
        finally:
            borrowed.unlink()
        assert done.returncode == 0, done.stderr
        return done.stdout

    def leftovers(self) -> list[Path]:
        found = [*self.site.rglob("*"), *self.bin.iterdir()]
        return [p for p in found if "hipdnn" in p.name and p.is_file()]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "env")


def test_wheel_installs_runs_and_goes_without_trace(
    built: Built, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.pip("install", "--no-index", "--no-deps", str(built.wheel))
    home = Path(environment.run("python", "-c", PROBE).strip())
    assert home == environment.site / "hipdnn_iree" / "jit" / "__init__.py"
    assert VERSION in environment.run("hipdnn-iree", "--version")
    assert VERSION in environment.run("python", "-m", "hipdnn_iree", "--version")
    library = environment.site / LIBRARY
    assert environment.run("hipdnn-iree", "plugin", "path").strip() == str(library)
    assert environment.run("python", "-c", START, str(library)) == f"{VERSION} 0\n"
    # The doctor starts it in a program without Python, and needs no C compiler for that.
    (environment.outside / "libhipdnn_backend.so").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(environment.outside))
    monkeypatch.setenv("PATH", str(environment.bin))
    monkeypatch.delenv("CC", raising=False)
    found = environment.run("hipdnn-iree", "plugin", "doctor", str(library.parent))
    assert f"{library} starts in a program without Python, and serves a graph" in found
    monkeypatch.undo()
    environment.pip("uninstall", "--yes", "hipdnn-iree")
    assert environment.leftovers() == []
    assert not (environment.site / "hipdnn_iree").exists()


def test_editable_install_shows_the_checkout_and_nothing_else(
    checkout: Path, environment: Environment
) -> None:
    if not (checkout / "typings").exists():
        pytest.skip("from a source distribution, which has no typings/, it shows all root folders")
    flags = ("--no-index", "--no-deps", "--no-build-isolation")
    # Without isolation the build backend must be importable for the new environment's Python.
    borrowed = environment.site / "borrowed.pth"
    borrowed.write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    try:
        environment.pip("install", *flags, "--ignore-installed", "--editable", str(checkout))
    finally:
        borrowed.unlink()
    assert Path(environment.run("python", "-c", PROBE).strip()) == checkout / "jit" / "__init__.py"
    assert VERSION in environment.run("hipdnn-iree", "--version")
    assert VERSION in environment.run("python", "-m", "hipdnn_iree", "--version")
    added = environment.run("python", "-c", "import sys; print(*sys.path, sep='\\n')").splitlines()
    assert not {str(checkout), str(checkout.parent)} & set(added)
    environment.pip("uninstall", "--yes", "hipdnn-iree")
    assert environment.leftovers() == []


def test_version_of_this_environment() -> None:
    """A stale editable install reports an old version; scripts/setup renews it."""
    try:
        installed = metadata.version("hipdnn-iree")
    except metadata.PackageNotFoundError:
        pytest.skip("runs from a bare checkout")
    assert installed == VERSION
