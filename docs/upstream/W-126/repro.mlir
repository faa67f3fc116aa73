func.func @main(%w: !torch.vtensor<[6,1,2],f32>) -> !torch.vtensor<[2,6,3],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %int2 = torch.constant.int 2
  %int4 = torch.constant.int 4
  %int6 = torch.constant.int 6
  %none = torch.constant.none
  %false = torch.constant.bool false
  %0 = torch.aten.arange.start_step %int0, %int2, %int1, %int4, %none, %none, %none : !torch.int, !torch.int, !torch.int, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],si64>
  %1 = torch.prim.ListConstruct %int1, %int2, %int1 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %2 = torch.aten.view %0, %1 : !torch.vtensor<[2],si64>, !torch.list<int> -> !torch.vtensor<[1,2,1],si64>
  %3 = torch.prim.ListConstruct %int2, %int2, %int2 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %4 = torch.aten.expand %2, %3, %false : !torch.vtensor<[1,2,1],si64>, !torch.list<int>, !torch.bool -> !torch.vtensor<[2,2,2],si64>
  %5 = torch.prims.convert_element_type %4, %int6 : !torch.vtensor<[2,2,2],si64>, !torch.int -> !torch.vtensor<[2,2,2],f32>
  %6 = torch.vtensor.literal(dense<1.250000e-01> : tensor<1xf32>) : !torch.vtensor<[1],f32>
  %7 = torch.aten.mul.Tensor %5, %6 : !torch.vtensor<[2,2,2],f32>, !torch.vtensor<[1],f32> -> !torch.vtensor<[2,2,2],f32>
  %8 = torch.prim.ListConstruct %int1 : (!torch.int) -> !torch.list<int>
  %9 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %10 = torch.aten.convolution %7, %w, %none, %8, %8, %8, %false, %9, %int2 : !torch.vtensor<[2,2,2],f32>, !torch.vtensor<[6,1,2],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[2,6,3],f32>
  return %10 : !torch.vtensor<[2,6,3],f32>
}
