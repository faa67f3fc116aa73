# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attacks on the whole, bounded by time: what must survive them, survives (docs/guarantees.md)."""
