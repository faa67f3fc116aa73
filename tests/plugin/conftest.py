# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The host, the library, and jobs: graphs with their operands and what has to come out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.hipdnn_plugin import library as library_module
from hipdnn_iree.jit.settings import settings

from tools.host.driver import SHARED, Host, Job, compile_c, write_job

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def library() -> Path:
    return library_module.LIBRARY.find(settings())


@pytest.fixture(scope="session")
def naive_library(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that compiles ``foreign/naive.c`` with some flags, once."""
    folder, built = tmp_path_factory.mktemp("naive"), dict[tuple[str, ...], Path]()

    def build(*flags: str) -> Path:
        if flags not in built:
            out, source = folder / f"{len(built)}.so", HERE / "foreign" / "naive.c"
            built[flags] = compile_c(out, *SHARED, "-Wno-unused-function", *flags, source)
        return built[flags]

    return build


def _copy(built: Path, folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    copy = Path(shutil.copy(built, folder / f".{name}"))
    # In one step, as a file that was here may be mapped into this process.
    return copy.replace(folder / f"{name}.so")


@pytest.fixture
def fresh_naive(naive_library: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes a copy of the naive plugin, which behaves as it is called."""

    def make(name: str = "naive", *flags: str) -> Path:
        return _copy(naive_library(*flags), tmp_path, name)

    return make


@pytest.fixture(scope="session")
def naive(
    naive_library: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Return a function that gives such a copy, the same one to all tests: it is probed once."""
    folder, made = tmp_path_factory.mktemp("copies"), dict[tuple[str, ...], Path]()

    def give(name: str = "naive", *flags: str) -> Path:
        key = (name, *flags)
        if key not in made:
            made[key] = _copy(naive_library(*flags), folder / str(len(made)), name)
        return made[key]

    return give


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Host:
    return Host(tmp_path_factory.mktemp("host"), library)


@pytest.fixture
def make_job(tmp_path: Path) -> Callable[..., Job]:
    """Return `write_job`, each time into a new folder."""

    def make(data: bytes, **options: Any) -> Job:
        return write_job(tmp_path / f"job{len(list(tmp_path.iterdir()))}", data, **options)

    return make
