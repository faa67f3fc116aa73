# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A host of engine plugins in C, and its driver."""
