func.func @main(%x: tensor<32x17x3x2xf32>, %w: tensor<2x3xf32>) -> tensor<32x16xf32> {
  %zero = arith.constant 0.0 : f32
  %part = tensor.extract_slice %x[0, 0, 0, 0] [32, 16, 3, 2] [1, 1, 1, 1] : tensor<32x17x3x2xf32> to tensor<32x16x3x2xf32>
  %empty = tensor.empty() : tensor<32x16xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<32x16xf32>) -> tensor<32x16xf32>
  %y = linalg.generic {
    indexing_maps = [
      affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>,
      affine_map<(d0, d1, d2, d3) -> (d3, d2)>,
      affine_map<(d0, d1, d2, d3) -> (d0, d1)>
    ],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"]
  } ins(%part, %w : tensor<32x16x3x2xf32>, tensor<2x3xf32>) outs(%start : tensor<32x16xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %product = arith.mulf %a, %b : f32
    %sum = arith.addf %product, %out : f32
    linalg.yield %sum : f32
  } -> tensor<32x16xf32>
  return %y : tensor<32x16xf32>
}
