# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which tuning spec holds for a target: a file that is named, or one of a folder.

A tuning spec is a module of IREE's transform dialect that gives kernels the tiles, workgroup and
pipeline that somebody measured to be best.  In a folder (``HIPDNN_IREE_TUNING_DIR``) it has the
name of a product or an architecture: for ``mi300x`` that is ``mi300x.mlir``, else
``gfx942.mlir``; for ``gfx942`` only the second.  A file that is named (``HIPDNN_IREE_TUNING_SPEC``)
goes before the folder, for every target.  What is in the file is part of the cache key, not where
it lies.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..graph_api.errors import SettingError
from ..graph_api.files import read_file

if TYPE_CHECKING:
    from .options import CompileOptions
    from .target import Target

__all__ = ["FLAG", "content", "folder_content", "spec_for"]

FLAG = "--iree-codegen-tuning-spec-path"
_FILE, _FOLDER = "HIPDNN_IREE_TUNING_SPEC", "HIPDNN_IREE_TUNING_DIR"


def spec_for(target: Target, options: CompileOptions) -> Path | None:
    """Return the tuning spec for a target; None where there is none.

    Raises
    ------
    SettingError
        If the folder is not one.
    """
    if options.tuning_spec is not None:
        return options.tuning_spec
    folder = options.tuning_dir
    if folder is None:
        return None
    _must_be_folder(folder)
    if not target.is_gfx9:
        return None
    paths = (folder / f"{name}.mlir" for name in (target.sku, target.arch) if name)
    return next(filter(os.path.isfile, paths), None)


def content(path: Path) -> str:
    """Return what stands for a tuning spec in a cache key.

    Raises
    ------
    SettingError
        If it cannot be read.
    """
    try:
        return "sha256:" + hashlib.sha256(read_file(path)).hexdigest()
    except OSError as error:
        raise SettingError(
            f"tuning spec {str(path)!r} ({_FILE} or {_FOLDER}) cannot be read: {error.strerror}"
        ) from error


def folder_content(folder: Path) -> str:
    """Return what stands for all tuning specs of a folder together.

    Raises
    ------
    SettingError
        If it is no folder, or a file cannot be read.
    """
    _must_be_folder(folder)
    files = sorted(filter(os.path.isfile, folder.glob("*.mlir")))
    return " ".join(f"{path.name}={content(path)}" for path in files)


def _must_be_folder(folder: Path) -> None:
    if not os.path.isdir(folder):
        raise SettingError(
            f"{_FOLDER} is {str(folder)!r}, which is no folder; "
            "it holds files such as gfx942.mlir and mi300x.mlir"
        )
