# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``python -m hipdnn_iree`` is the command ``hipdnn-iree``."""

from __future__ import annotations

from .provider.cli.main import main

if __name__ == "__main__":
    main()
