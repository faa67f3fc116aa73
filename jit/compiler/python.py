"""What a process of its own is started with: a Python, and the folder of this package."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from ...graph_api.errors import CompileError

__all__ = ["import_folder", "interpreter"]

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?[dt]*")


def interpreter(chosen: Path | None) -> str:
    """Return the Python executable that runs workers and probes.

    ``chosen`` if given, else the one that runs this code.  In a program that embeds Python,
    ``sys.executable`` may be that program: then one is looked for under ``sys.prefix``.

    Raises
    ------
    CompileError
        If there is none.
    """
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    prefixes = dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix))
    guesses = [f"{p}/bin/{n}" for p in prefixes for n in (f"python{version}", "python3")]
    if _PYTHON.fullmatch(os.path.basename(sys.executable or "")):
        guesses.insert(0, sys.executable)
    if chosen is not None:
        guesses = [str(chosen)]
    for path in guesses:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise CompileError(
        f"no Python to run the compiler in: tried {', '.join(guesses)}; "
        "set HIPDNN_IREE_PYTHON to the interpreter that has hipdnn-iree installed",
        stage="crash",
    )


def import_folder() -> str:
    """Return the folder that has to be on ``sys.path`` to import this package."""
    package = sys.modules[__name__.partition(".")[0]]
    return os.path.dirname(os.path.dirname(os.path.abspath(str(package.__file__))))
