func.func @main(%x: !torch.vtensor<[3,2,1,2],f32>, %w: !torch.vtensor<[4,2,2,2],f32>) -> !torch.vtensor<[3,4,2,2],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %two = torch.constant.int 2
  %three = torch.constant.int 3
  %none = torch.constant.none
  %false = torch.constant.bool false
  %rows = torch.vtensor.literal(dense<0.000000e+00> : tensor<3x2x1x2xf32>) : !torch.vtensor<[3,2,1,2],f32>
  %lines = torch.prim.ListConstruct %rows, %x, %rows : (!torch.vtensor<[3,2,1,2],f32>, !torch.vtensor<[3,2,1,2],f32>, !torch.vtensor<[3,2,1,2],f32>) -> !torch.list<vtensor<[3,2,1,2],f32>>
  %high = torch.aten.cat %lines, %two : !torch.list<vtensor<[3,2,1,2],f32>>, !torch.int -> !torch.vtensor<[3,2,3,2],f32>
  %column = torch.vtensor.literal(dense<0.000000e+00> : tensor<3x2x3x1xf32>) : !torch.vtensor<[3,2,3,1],f32>
  %parts = torch.prim.ListConstruct %high, %column : (!torch.vtensor<[3,2,3,2],f32>, !torch.vtensor<[3,2,3,1],f32>) -> !torch.list<vtensor<*,f32>>
  %padded = torch.aten.cat %parts, %three : !torch.list<vtensor<*,f32>>, !torch.int -> !torch.vtensor<[3,2,3,3],f32>
  %ones = torch.prim.ListConstruct %one, %one : (!torch.int, !torch.int) -> !torch.list<int>
  %nothing = torch.prim.ListConstruct %zero, %zero : (!torch.int, !torch.int) -> !torch.list<int>
  %empty = torch.prim.ListConstruct  : () -> !torch.list<int>
  %y = torch.aten.convolution %padded, %w, %none, %ones, %nothing, %ones, %false, %empty, %one : !torch.vtensor<[3,2,3,3],f32>, !torch.vtensor<[4,2,2,2],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[3,4,2,2],f32>
  return %y : !torch.vtensor<[3,4,2,2],f32>
}
