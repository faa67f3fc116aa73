# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Executing compiled code: devices, loaded modules, buffers and bound plans.

============= ==================================================================
module        holds
============= ==================================================================
device        one HAL device per (driver, device id, stream); rules of a process
loaded_module compiled code, checked and loaded on a device
cpu           whether the CPU has the instructions that a module uses
elements      data type <-> HAL element type <-> NumPy dtype <-> DLPack code
arrays        aligned arrays in a tensor's strides; packing of 4- and 6-bit types
dlpack        DLPack capsules, read and made
caller_memory `CallerMemory`: what a caller gives for a tensor, described
binding_rules what a description must fulfil (BIND-01 to BIND-14)
scalars       numbers that the host passes by value at each execution
buffer_set    `BufferSet`: all buffers of an execution, described and checked
device_memory device buffers over the caller's memory; staging copies
padding       memory that stands in for a smaller tensor of the caller
workspaces    scratch memory and memory for copies that the plans of a device share
streams       waiting for a caller's stream of a GPU
hip           calls of HIP through hip-python
pending       `Pending`: an asynchronous execution
waiting       waiting for worker threads without taking a core from them
bound_plan    `BoundPlan`: a function with its buffers, and what a call does
binder        from checked buffers to bound plans: what is copied, and which workspace
executable    `Executable`: from buffers to bound plans, which it remembers
============= ==================================================================

No module imports NumPy or IREE before it is needed.
"""

from __future__ import annotations
