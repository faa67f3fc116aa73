#a = affine_map<(c, n, h) -> (c, h)>
#b = affine_map<(c, n, h) -> (c, n, h)>
#r = affine_map<(c, n, h) -> (c)>
func.func @main(%a: tensor<3x20xf32>, %b: tensor<3x2x20xf32>) -> tensor<3xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %y = linalg.generic {indexing_maps = [#a, #b, #r], iterator_types = ["parallel", "reduction", "reduction"]} ins(%a, %b : tensor<3x20xf32>, tensor<3x2x20xf32>) outs(%f : tensor<3xf32>) {
  ^bb0(%x: f32, %w: f32, %s: f32):
    %m = arith.mulf %x, %w : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<3xf32>
  return %y : tensor<3xf32>
}
