# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-133: A pad that is in no kernel with a sum is compiled wrongly for GPUs (W-054).

Rules see many such pads coming; what the compiler makes of reshapes and transposes around a
convolution is known only when it has formed the dispatches.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["COPIED", "LonePad", "any_alone", "kept"]

_KEPT = "--iree-flow-enable-pad-handling"
_FUSED = "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops"
COPIED = (f"{_KEPT}=false", f"{_FUSED}=false")
"""Flags by which what is padded is copied into zeros."""


class LonePad(Exception):  # noqa: N818 - an answer, not a defect
    """A kernel has a pad and no sum that reads it."""


def kept(flags: Iterable[str]) -> bool:
    """Return whether pads may get into kernels with these flags."""
    return not {_KEPT, f"{_KEPT}=true"}.isdisjoint(flags)


def any_alone(dispatches: bytes) -> bool:
    """Return whether a kernel has a pad but no loop that adds up, in the text of the dispatches."""
    kernels = dispatches.split(b"flow.executable private ")
    return any(b" tensor.pad " in one and b'"reduction"' not in one for one in kernels)
