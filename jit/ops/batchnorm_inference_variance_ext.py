# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation with a fixed mean and variance."""

from __future__ import annotations

from .channel_norms import INFERENCE

__all__ = ["INFO"]

INFO = INFERENCE
