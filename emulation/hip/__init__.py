# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A HIP library whose GPUs are emulated: `native/hip.c`, and what executes kernels for it."""
