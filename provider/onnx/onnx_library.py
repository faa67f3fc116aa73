# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The library that ONNX Runtime loads, as a file."""

from __future__ import annotations

from pathlib import Path

from ..native.library import NativeLibrary

__all__ = ["LIBRARY"]

_HERE = Path(__file__).resolve().parent

LIBRARY = NativeLibrary(
    name="libhipdnn_iree_onnx.so",
    title="the execution provider's library",
    source=_HERE / "native" / "ep.c",
    shipped=_HERE / "library" / "libhipdnn_iree_onnx.so",
    cache="onnx-library",
    exports=_HERE / "native" / "exports.map",
)
