#id = affine_map<(i) -> (i)>
func.func @main(%x: tensor<4xf64>) -> tensor<4xf16> {
  %small = arith.constant 3.0517578125e-05 : f64
  %e = tensor.empty() : tensor<4xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4xf64>) outs(%e : tensor<4xf16>) {
  ^bb0(%a: f64, %b: f16):
    %p = arith.mulf %a, %small : f64
    %t = arith.truncf %p : f64 to f16
    linalg.yield %t : f16
  } -> tensor<4xf16>
  return %y : tensor<4xf16>
}
