# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks on a real device: every way to call a plan, and all sample problems."""
