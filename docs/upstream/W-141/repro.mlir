// Softmax of 500 rows of 1001 numbers.
func.func @main(%x: tensor<500x1001xf32>) -> tensor<500x1001xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %row = tensor.empty() : tensor<500xf32>
  %matrix = tensor.empty() : tensor<500x1001xf32>
  %before = linalg.fill ins(%lowest : f32) outs(%row : tensor<500xf32>) -> tensor<500xf32>
  %most = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<500x1001xf32>) outs(%before : tensor<500xf32>) {
  ^bb0(%a: f32, %s: f32):
    %m = arith.maximumf %a, %s : f32
    linalg.yield %m : f32
  } -> tensor<500xf32>
  %nothing = linalg.fill ins(%zero : f32) outs(%row : tensor<500xf32>) -> tensor<500xf32>
  %total = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                       affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x, %most : tensor<500x1001xf32>, tensor<500xf32>)
      outs(%nothing : tensor<500xf32>) {
  ^bb0(%a: f32, %m: f32, %s: f32):
    %d = arith.subf %a, %m : f32
    %e = math.exp %d : f32
    %t = arith.addf %e, %s : f32
    linalg.yield %t : f32
  } -> tensor<500xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                       affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %most, %total : tensor<500x1001xf32>, tensor<500xf32>, tensor<500xf32>)
      outs(%matrix : tensor<500x1001xf32>) {
  ^bb0(%a: f32, %m: f32, %s: f32, %o: f32):
    %d = arith.subf %a, %m : f32
    %e = math.exp %d : f32
    %q = arith.divf %e, %s : f32
    linalg.yield %q : f32
  } -> tensor<500x1001xf32>
  return %y : tensor<500x1001xf32>
}
