# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The library as a file: what it exports, needs and shares with Python."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.onnx import abi
from hipdnn_iree.provider.onnx.onnx_library import LIBRARY


@pytest.fixture(scope="module")
def library() -> Path:
    return LIBRARY.find(settings())


def test_exports_the_two_functions_and_needs_no_python(library: Path) -> None:
    words = ["nm", "-D", "--defined-only", library]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    assert names == {"CreateEpFactories", "ReleaseEpFactory"}
    words = ["readelf", "-d", library]
    needed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "libpython" not in needed
    assert re.search(r"FLAGS_1.*NODELETE", needed)


def test_table_is_that_of_the_source() -> None:
    source = LIBRARY.source.read_text()
    block = source[source.index("#define FORWARDED(X)") : source.index("static struct node*")]
    assert tuple(re.findall(r"X\((\w+),", block)) == abi.FUNCTIONS
    assert f"#define TABLE_VERSION {abi.TABLE_VERSION} " in source
    assert f"#define API_VERSION {abi.API_VERSION}\n" in source
    assert f"#define VENDOR_ID {abi.VENDOR_ID:#x}" in source
