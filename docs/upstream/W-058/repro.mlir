func.func @main(%x: !torch.vtensor<[1,1,3,7],f32>, %w: !torch.vtensor<[4,1,3,2],f32>) -> !torch.vtensor<[1,4,3,7],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.vtensor.literal(dense<0.000000e+00> : tensor<1x1x3x7xf32>) : !torch.vtensor<[1,1,3,7],f32>
  %2 = torch.prim.ListConstruct %x, %1 : (!torch.vtensor<[1,1,3,7],f32>, !torch.vtensor<[1,1,3,7],f32>) -> !torch.list<vtensor<[1,1,3,7],f32>>
  %3 = torch.constant.int 1
  %4 = torch.aten.cat %2, %3 : !torch.list<vtensor<[1,1,3,7],f32>>, !torch.int -> !torch.vtensor<[1,2,3,7],f32>
  %5 = torch.vtensor.literal(dense<0.000000e+00> : tensor<4x1x3x2xf32>) : !torch.vtensor<[4,1,3,2],f32>
  %6 = torch.prim.ListConstruct %w, %5 : (!torch.vtensor<[4,1,3,2],f32>, !torch.vtensor<[4,1,3,2],f32>) -> !torch.list<vtensor<[4,1,3,2],f32>>
  %7 = torch.aten.cat %6, %3 : !torch.list<vtensor<[4,1,3,2],f32>>, !torch.int -> !torch.vtensor<[4,2,3,2],f32>
  %8 = torch.constant.none
  %9 = torch.prim.ListConstruct %3, %3 : (!torch.int, !torch.int) -> !torch.list<int>
  %10 = torch.constant.int 2
  %11 = torch.prim.ListConstruct %10, %3 : (!torch.int, !torch.int) -> !torch.list<int>
  %12 = torch.prim.ListConstruct %10, %10 : (!torch.int, !torch.int) -> !torch.list<int>
  %13 = torch.constant.bool false
  %14 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %15 = torch.aten.convolution %4, %7, %8, %9, %11, %12, %13, %14, %3 : !torch.vtensor<[1,2,3,7],f32>, !torch.vtensor<[4,2,3,2],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,4,3,7],f32>
  return %15 : !torch.vtensor<[1,4,3,7],f32>
}
