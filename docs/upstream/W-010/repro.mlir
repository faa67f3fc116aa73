func.func @main(%x: tensor<1x32x30x30xf32>, %w: tensor<32x3x3x32xf32>) -> tensor<1x32x28x28xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32x28x28xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x32x28x28xf32>) -> tensor<1x32x28x28xf32>
  %t = tensor.empty() : tensor<32x32x3x3xf32>
  %v = linalg.transpose ins(%w : tensor<32x3x3x32xf32>) outs(%t : tensor<32x32x3x3xf32>) permutation = [0, 3, 1, 2]
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%x, %v : tensor<1x32x30x30xf32>, tensor<32x32x3x3xf32>) outs(%f : tensor<1x32x28x28xf32>) -> tensor<1x32x28x28xf32>
  return %y : tensor<1x32x28x28xf32>
}
