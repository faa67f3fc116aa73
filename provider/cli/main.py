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
    try:
        from .app import app
    except KeyboardInterrupt:  # while it is being imported
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit(_without_click(sys.argv[1:] if args is None else args))
    app.main(args)


def _without_click(args: Sequence[str]) -> int:
    print("hipdnn-iree: the package click is missing; pip install hipdnn-iree", file=sys.stderr)
    if args and args[0] == "env":
        import json

        from .probes import report

        print(json.dumps(report(), indent=2, default=str))
        return 0
    return 5
