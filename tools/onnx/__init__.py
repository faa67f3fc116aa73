# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX's own cases of single nodes on the execution provider, and example models."""
