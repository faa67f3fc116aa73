# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The execution provider for ONNX Runtime: `register` makes its devices known."""

from __future__ import annotations

from .registration import DEFAULT_NAME, devices, register, session_options, unregister

__all__ = ["DEFAULT_NAME", "devices", "register", "session_options", "unregister"]
