# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keys, files and a manifest for the store of the cache, and what it says."""

from __future__ import annotations

import logging
import random
from pathlib import Path

from hipdnn_iree.jit.cache import CacheKey, CacheStore


def key(number: int = 0, **more: str) -> CacheKey:
    return CacheKey({"graph": f"g{number}", "flags": ("-a", "-b"), "ir": "m" * 500, **more})


def files(number: int = 0, size: int = 3000) -> dict[str, bytes]:
    data = random.Random(number)
    return {"module.vmfb": data.randbytes(size), "module.mlir": b"func.func @main " * 20}


MANIFEST = {"signature": {"args": [{"dims": [2, 3]}], "workspace_bytes": 64}, "note": "größe"}


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def file_of(store: CacheStore, of: CacheKey) -> Path:
    return store.root / "v2" / of.digest[:2] / of.digest
