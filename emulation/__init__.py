# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels compiled for gfx9 GPUs, read from their code objects and executed on the CPU.

What comes out of this package is *emulated*: it says what the instructions compute, never how
fast, and never that AMD hardware was involved.
"""
