func.func @main(%a: tensor<2x512xf16>, %b: tensor<512x64xf16>) -> tensor<2x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x64xf32>) -> tensor<2x64xf32>
  %c = linalg.matmul ins(%a, %b : tensor<2x512xf16>, tensor<512x64xf16>) outs(%start : tensor<2x64xf32>) -> tensor<2x64xf32>
  return %c : tensor<2x64xf32>
}
