# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders that repeat a failed compilation without this project.

::

    20261104T101500-crash-conv_bias_relu-k3v9/
        module.mlir  flags.txt  command.sh  log.txt  result.json
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..trust import UnsafeError, make_private, unsafe_reason
from .request import CompileRequest

__all__ = ["write"]

log = logging.getLogger("hipdnn_iree.compiler")

_NAME = re.compile(r"\d{8}T\d{6}-[a-z]+-[\w.-]*-\w+")
_UNFINISHED = ".new-"


def write(
    parent: Path | None,
    keep: int,
    request: CompileRequest,
    result: Mapping[str, Any],
    text: str,
    tool: str,
) -> str:
    """Write one folder, remove the oldest above ``keep``, and return its path.

    Parameters
    ----------
    parent : Path or None
        Folder of all reproducers; None writes none.
    keep : int
        How many may stay; 0 writes none.
    request : CompileRequest
        What was asked.
    result : mapping
        What ``result.json`` holds; its ``"stage"`` becomes part of the name.
    text : str
        Content of ``log.txt``.
    tool : str
        Path of iree-compile, or ``""``.

    Returns
    -------
    str
        The folder, or ``""`` when none was written: an error of the file system is logged, as
        it must not hide the error of the compiler.
    """
    if keep <= 0 or parent is None:
        return ""
    label = re.sub(r"[^A-Za-z0-9_.]+", "_", request.label)[:40]
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    try:
        make_private(parent)
        if reason := unsafe_reason(os.stat(parent), above=True):
            raise UnsafeError(reason, parent)  # command.sh is there to be run
        folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=parent))
        texts = {
            "flags.txt": "".join(f"{flag}\n" for flag in request.flags),
            "command.sh": _command(request, tool),
            "log.txt": text,
            "result.json": json.dumps(dict(result), indent=2) + "\n",
        }
        (folder / "module.mlir").write_bytes(request.source)
        for name, content in texts.items():
            (folder / name).write_bytes(content.encode("utf-8", "surrogateescape"))
        (folder / "command.sh").chmod(0o755)
        unique = folder.name.removeprefix(_UNFINISHED)
        final = parent / f"{stamp}-{result['stage']}-{label}-{unique}"
        folder.rename(final)
    except OSError as error:
        log.warning("no reproducer could be written in %s: %s", parent, error)
        return ""
    _prune(parent, keep)
    return str(final)


def _command(request: CompileRequest, tool: str) -> str:
    flags = " \\\n  ".join(shlex.quote(flag) for flag in request.flags)
    return f"""#!/bin/sh
# Repeats the compilation.  IREE_COMPILE chooses another iree-compile; more flags may follow.
cd "$(dirname "$0")" || exit 1
exec "${{IREE_COMPILE:-{tool or "iree-compile"}}}" module.mlir \\
  {flags} \\
  -o module.vmfb "$@"
"""


def _prune(parent: Path, keep: int) -> None:
    # Other processes may prune at the same time: whatever is gone already is fine.  Relative to
    # the folder, and never through a link.
    with suppress(OSError):
        fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in _superfluous(fd, keep):
                shutil.rmtree(name, ignore_errors=True, dir_fd=fd)
        finally:
            os.close(fd)


def _superfluous(parent: int, keep: int) -> list[str]:
    """Return the oldest folders of ours above ``keep``, and what killed processes left."""
    written, left = [], []
    for name in os.listdir(parent):
        with suppress(OSError):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            if _NAME.fullmatch(name):
                written.append((found.st_mtime, name))
            elif name.startswith(_UNFINISHED) and time.time() - found.st_mtime > 3600:
                left.append(name)
    return [name for _, name in sorted(written)[:-keep]] + left
