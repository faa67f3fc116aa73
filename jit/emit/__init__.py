# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Building Torch-dialect IR from objects; loading this package loads torch-mlir."""
