# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Engines, selection, verification and the command line."""
