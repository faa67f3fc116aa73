"""The plugin library as a file (`provider.native.library`)."""

from __future__ import annotations

from pathlib import Path

from ..provider.native.library import NativeLibrary

__all__ = ["LIBRARY", "NAME"]

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
