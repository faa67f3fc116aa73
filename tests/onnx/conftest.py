# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""These tests need onnx and onnxruntime, which only the extra `onnx` brings."""

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime", minversion="1.23")
