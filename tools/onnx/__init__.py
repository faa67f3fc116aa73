"""ONNX's own cases of single nodes on the execution provider, and example models."""
