# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowering, compiling, caching and running of operation graphs."""
