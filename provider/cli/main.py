# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The entry point of ``hipdnn-iree`` and ``python -m hipdnn_iree``.

Without click, which the command line needs, it still says what is installed and what is not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    words = list(sys.argv[1:] if args is None else args)
    if words == ["--version"] and _version():
        sys.exit(0)
    try:
        from .app import app
    except KeyboardInterrupt:  # while it is being imported
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit(_without_click(words))
    app.main(words)


def _version() -> bool:
    """Print the version as `app` would, in a fifth of the time; whether stdout has taken it."""
    from ... import __version__

    try:
        print(f"hipdnn-iree, version {__version__}", flush=True)
    except (OSError, AttributeError):  # full, or closed: `app` knows what to say
        return False
    return True


def _without_click(args: Sequence[str]) -> int:
    import json

    print("hipdnn-iree: the package click is missing; pip install hipdnn-iree", file=sys.stderr)
    if args and args[0] == "env":
        from .probes import report

        print(json.dumps(report(), indent=2, default=str))
        return 0
    if args and args[0] == "doctor":
        from .diagnosis import as_dict, examine

        print(json.dumps(as_dict(examine()), indent=2))
        return 1
    return 5
