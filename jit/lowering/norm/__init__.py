# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch, layer and RMS normalisation and their gradients."""
