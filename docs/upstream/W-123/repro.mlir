func.func @main(%x: !torch.vtensor<[2,2,1,2],f32>, %w: !torch.vtensor<[2,2,2,2],f32>) -> !torch.vtensor<[2,2,2,1],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %two = torch.constant.int 2
  %three = torch.constant.int 3
  %none = torch.constant.none
  %false = torch.constant.bool false
  %zeros = torch.vtensor.literal(dense<0.000000e+00> : tensor<2x2x1x2xf32>) : !torch.vtensor<[2,2,1,2],f32>
  %parts = torch.prim.ListConstruct %zeros, %x, %zeros : (!torch.vtensor<[2,2,1,2],f32>, !torch.vtensor<[2,2,1,2],f32>, !torch.vtensor<[2,2,1,2],f32>) -> !torch.list<vtensor<[2,2,1,2],f32>>
  %padded = torch.aten.cat %parts, %two : !torch.list<vtensor<[2,2,1,2],f32>>, !torch.int -> !torch.vtensor<[2,2,3,2],f32>
  %ones = torch.prim.ListConstruct %one, %one : (!torch.int, !torch.int) -> !torch.list<int>
  %nothing = torch.prim.ListConstruct %zero, %zero : (!torch.int, !torch.int) -> !torch.list<int>
  %empty = torch.prim.ListConstruct  : () -> !torch.list<int>
  %y = torch.aten.convolution %padded, %w, %none, %ones, %nothing, %ones, %false, %empty, %one : !torch.vtensor<[2,2,3,2],f32>, !torch.vtensor<[2,2,2,2],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[2,2,2,1],f32>
  return %y : !torch.vtensor<[2,2,2,1],f32>
}
