#image = affine_map<(h, w, g, o, s) -> (h, w + s, g)>
#filter = affine_map<(h, w, g, o, s) -> (g, o, s)>
#result = affine_map<(h, w, g, o, s) -> (h, w, g, o)>
func.func @main(%x: tensor<2x5x4xf32>, %f: tensor<4x8x2xf32>) -> tensor<2x4x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x4x4x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x, %f : tensor<2x5x4xf32>, tensor<4x8x2xf32>) outs(%zeros : tensor<2x4x4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %product = arith.mulf %a, %b : f32
    %sum = arith.addf %out, %product : f32
    linalg.yield %sum : f32
  } -> tensor<2x4x4x8xf32>
  return %y : tensor<2x4x4x8xf32>
}
