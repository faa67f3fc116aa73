"""The run side: devices, loaded modules, buffers and bound plans.

========== =====================================================================
module     holds
========== =====================================================================
device     one HAL device per (driver, device id, stream) and the process rules
module     compiled code, checked and loaded on a device
cpu        whether the CPU has the instructions that a module uses
elements   data type <-> HAL element type <-> NumPy dtype <-> DLPack code
arrays     aligned arrays in a tensor's strides; packing of 4- and 6-bit types
dlpack     DLPack capsules, read and made
buffers    what a caller may give for a tensor, and how it is described
rules      what a description must fulfil
memory     device buffers over the caller's memory; staging
workspaces scratch memory that the plans of a device share
streams    waiting for a caller's stream of a GPU
pending    `Pending`: a run that was started
bound      `BoundPlan`: a function with its buffers, and what a call does
plan       `Executable`: from buffers to bound plans, which it remembers
========== =====================================================================

Nothing here imports NumPy or IREE before it is needed.
"""

from __future__ import annotations
