func.func @main(%x: !torch.vtensor<[2,32,6],f16>) -> !torch.vtensor<[2,6,32],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %0 = torch.aten.relu %x : !torch.vtensor<[2,32,6],f16> -> !torch.vtensor<[2,32,6],f16>
  %int6 = torch.constant.int 6
  %1 = torch.prims.convert_element_type %0, %int6 : !torch.vtensor<[2,32,6],f16>, !torch.int -> !torch.vtensor<[2,32,6],f32>
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %int2 = torch.constant.int 2
  %true = torch.constant.bool true
  %none = torch.constant.none
  %2 = torch.prim.ListConstruct %int1, %int2 : (!torch.int, !torch.int) -> !torch.list<int>
  %3 = torch.aten.sum.dim_IntList %1, %2, %true, %none : !torch.vtensor<[2,32,6],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[2,1,1],f32>
  %4 = torch.aten.sub.Tensor %1, %3, %int1 : !torch.vtensor<[2,32,6],f32>, !torch.vtensor<[2,1,1],f32>, !torch.int -> !torch.vtensor<[2,32,6],f32>
  %5 = torch.prim.ListConstruct %int0, %int2, %int1 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %6 = torch.aten.permute %4, %5 : !torch.vtensor<[2,32,6],f32>, !torch.list<int> -> !torch.vtensor<[2,6,32],f32>
  return %6 : !torch.vtensor<[2,6,32],f32>
}
