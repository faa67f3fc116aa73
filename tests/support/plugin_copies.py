# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies of the plugin library, as an installation makes them."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_of(library: Path, folder: Path, **record: object) -> Path:
    """Copy the library into a folder, with a record of its Python if one is given."""
    copy = Path(shutil.copy(library, folder))
    if record:
        text = "".join(f"{key} = {value}\n" for key, value in record.items())
        Path(f"{copy}.python").write_text(text)
    return copy
