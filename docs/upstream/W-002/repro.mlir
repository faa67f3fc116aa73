func.func @main(%a: tensor<4xf32>, %w: tensor<4x5xf32>) -> tensor<3x5xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %b = linalg.broadcast ins(%a : tensor<4xf32>) outs(%e : tensor<3x4xf32>) dimensions = [0]
  %z = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<3x5xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<3x5xf32>) -> tensor<3x5xf32>
  %y = linalg.matmul ins(%b, %w : tensor<3x4xf32>, tensor<4x5xf32>) outs(%f : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}
