# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-083: Attention rows whose length is no multiple of 64 are unrolled.

255 keys with bounds take 24 s to compile, 500 take minutes.
"""

from __future__ import annotations

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


_MOST_KEYS = 256


def _ragged(keys: int) -> bool:
    return keys > _MOST_KEYS and keys % 64 != 0


WORKAROUND = Workaround(
    id="W-083",
    title="Attention rows whose length is no multiple of 64 are unrolled",
    symptom="slow",
    targets=GFX9,
    instead="declined: IREE-SDPA-03",
    applies=_ragged,
)
