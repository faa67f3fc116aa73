# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Defects that depend on what a lowering emits: it asks by number (`workarounds.strikes`)."""
