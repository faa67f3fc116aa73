# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pure model of an operation graph: standard library only."""
