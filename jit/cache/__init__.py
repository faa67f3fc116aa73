# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Content-addressed cache of compiled code: keys, and the store on disk.

Uses the standard library only; every name is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .entry import Entry as Entry
    from .explain import Miss as Miss
    from .explain import explain_miss as explain_miss
    from .installation import source_digest as source_digest
    from .installation import versions as versions
    from .key import SCHEMA as SCHEMA
    from .key import CacheKey as CacheKey
    from .key import Difference as Difference
    from .key import explain_difference as explain_difference
    from .store import CacheInfo as CacheInfo
    from .store import CacheStore as CacheStore
    from .upkeep import Finding as Finding
    from .upkeep import Removed as Removed

_EXPORTS = {
    "SCHEMA": "key",
    "CacheInfo": "store",
    "CacheKey": "key",
    "CacheStore": "store",
    "Difference": "key",
    "Entry": "entry",
    "Finding": "upkeep",
    "Miss": "explain",
    "Removed": "upkeep",
    "explain_difference": "key",
    "explain_miss": "explain",
    "source_digest": "installation",
    "versions": "installation",
}
__all__ = [
    "SCHEMA",
    "CacheInfo",
    "CacheKey",
    "CacheStore",
    "Difference",
    "Entry",
    "Finding",
    "Miss",
    "Removed",
    "explain_difference",
    "explain_miss",
    "source_digest",
    "versions",
]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
