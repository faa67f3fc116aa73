# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Make a cast of the dialect torch_c; exit status 1 if the dialect is not registered."""

import sys

from torch_mlir import ir
from torch_mlir.dialects import torch

with ir.Context() as context, ir.Location.unknown():
    torch.register_dialect(context)
    module = ir.Module.parse("func.func private @f(!torch.vtensor<[4],f32>)")
    kind = ir.RankedTensorType.get([4], ir.F32Type.get())
    try:
        ir.Module.parse(
            "func.func @main(%x: !torch.vtensor<[4],f32>) -> tensor<4xf32> {\n"
            "  %y = torch_c.to_builtin_tensor %x : !torch.vtensor<[4],f32> -> tensor<4xf32>\n"
            "  return %y : tensor<4xf32>\n}"
        )
    except ir.MLIRError as error:
        print(error.error_diagnostics[0].message[:200])
        sys.exit(1)
print("parsed")
sys.exit(0)
