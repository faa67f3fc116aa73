"""Building Torch-dialect IR from objects; loading this package loads torch-mlir."""
