# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin library as a file, and the program that the doctor loads it with."""

from __future__ import annotations

from pathlib import Path

from ..provider.native.library import NativeLibrary

__all__ = ["HOST", "LIBRARY", "NAME"]

NAME = "libhipdnn_iree_plugin.so"
"""hipDNN opens regular files that end in ``.so``, whatever they are called otherwise."""

_HERE = Path(__file__).resolve().parent

LIBRARY = NativeLibrary(
    name=NAME,
    title="the plugin library",
    source=_HERE / "native" / "plugin.c",
    shipped=_HERE / "engines" / NAME,
    cache="plugin",
)

HOST = NativeLibrary(
    name="hipdnn-iree-host",
    title="the host without Python",
    source=_HERE / "native" / "host.c",
    shipped=_HERE / "engines" / "hipdnn-iree-host",
    cache="host",
    program=True,
)
"""A program without Python that loads a plugin as hipDNN does."""
