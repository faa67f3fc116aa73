# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A graph split at op boundaries over several engines, with buffers of its own in between."""
