# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiling Torch-dialect text with IREE, in child processes only.

``client`` is what callers use.  It imports nothing of IREE: the library is loaded by ``worker``,
which runs in a process of its own, so that a compiler that aborts ends only that process.
"""
