#image = affine_map<(h, g, o, r, s, c) -> (h + r, s, g, c)>
#filter = affine_map<(h, g, o, r, s, c) -> (g, o, r, s, c)>
#result = affine_map<(h, g, o, r, s, c) -> (h, g, o)>
func.func @main(%x: tensor<10x3x2x4xf16>, %f: tensor<2x8x3x3x4xf16>) -> tensor<8x2x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x2x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x2x8xf32>) -> tensor<8x2x8xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %f : tensor<10x3x2x4xf16>, tensor<2x8x3x3x4xf16>) outs(%zeros : tensor<8x2x8xf32>) {
  ^bb0(%a: f16, %b: f16, %out: f32):
    %wide_a = arith.extf %a : f16 to f32
    %wide_b = arith.extf %b : f16 to f32
    %product = arith.mulf %wide_a, %wide_b : f32
    %sum = arith.addf %out, %product : f32
    linalg.yield %sum : f32
  } -> tensor<8x2x8xf32>
  return %y : tensor<8x2x8xf32>
}
