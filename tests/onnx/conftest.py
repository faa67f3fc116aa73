"""These tests need onnx and onnxruntime, which only the extra `onnx` brings."""

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime", minversion="1.23")
