# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""File formats of operation graphs: hipDNN's JSON and its FlatBuffers."""
