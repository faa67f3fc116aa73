func.func @main(%a: tensor<6x7xf32>, %b: tensor<7x5xf32>) -> (tensor<6x5xf32>, tensor<6x5xf32>, tensor<5x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<6x5xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<6x5xf32>) -> tensor<6x5xf32>
  %p = linalg.matmul ins(%a, %b : tensor<6x7xf32>, tensor<7x5xf32>) outs(%start : tensor<6x5xf32>) -> tensor<6x5xf32>
  %turned = tensor.empty() : tensor<5x6xf32>
  %q:2 = linalg.generic {
    indexing_maps = [
      affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d1, d0)>
    ],
    iterator_types = ["parallel", "parallel"]
  } ins(%p : tensor<6x5xf32>) outs(%empty, %turned : tensor<6x5xf32>, tensor<5x6xf32>) {
  ^bb0(%in: f32, %out: f32, %out_t: f32):
    %relu = arith.maximumf %in, %zero : f32
    linalg.yield %relu, %relu : f32, f32
  } -> (tensor<6x5xf32>, tensor<5x6xf32>)
  return %p, %q#0, %q#1 : tensor<6x5xf32>, tensor<6x5xf32>, tensor<5x6xf32>
}
