func.func @main(%q: tensor<2x1xf32>, %k: tensor<2x2x1xf32>, %v: tensor<2x2x1xf32>, %x: tensor<2xf32>) -> tensor<2x1x2xf32> {
  %one = arith.constant 1.0 : f32
  %rows = tensor.empty() : tensor<2x1xf32>
  %o = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, n, d, s) -> (b, d)>, affine_map<(b, n, d, s) -> (b, s, d)>, affine_map<(b, n, d, s) -> (b, s, n)>, affine_map<(b, n, d, s) -> ()>, affine_map<(b, n, d, s) -> (b, n)>]> ins(%q, %k, %v, %one : tensor<2x1xf32>, tensor<2x2x1xf32>, tensor<2x2x1xf32>, f32) outs(%rows : tensor<2x1xf32>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<2x1xf32>
  %empty = tensor.empty() : tensor<2x1x2xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, n, p) -> (b, n)>, affine_map<(b, n, p) -> (p)>, affine_map<(b, n, p) -> (b, n, p)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%o, %x : tensor<2x1xf32>, tensor<2xf32>) outs(%empty : tensor<2x1x2xf32>) {
  ^bb0(%a: f32, %c: f32, %out: f32):
    %p = arith.mulf %a, %c : f32
    linalg.yield %p : f32
  } -> tensor<2x1x2xf32>
  return %y : tensor<2x1x2xf32>
}
