func.func @main(%x: !torch.vtensor<[1,8,6,6],f16>, %v: !torch.vtensor<[16,8,3,3],f16>, %w: !torch.vtensor<[16,8,3,3],f16>) -> (!torch.vtensor<[1,16,6,6],f32>, !torch.vtensor<[1,16,6,6],f32>) attributes {torch.assume_strict_symbolic_shapes} {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %false = torch.constant.bool false
  %none = torch.constant.none
  %0 = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
  %1 = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %2 = torch.aten.convolution %x, %v, %none, %0, %0, %0, %false, %1, %int1 : !torch.vtensor<[1,8,6,6],f16>, !torch.vtensor<[16,8,3,3],f16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,16,6,6],f32>
  %3 = torch.aten.convolution %x, %w, %none, %0, %0, %0, %false, %1, %int1 : !torch.vtensor<[1,8,6,6],f16>, !torch.vtensor<[16,8,3,3],f16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,16,6,6],f32>
  return %2, %3 : !torch.vtensor<[1,16,6,6],f32>, !torch.vtensor<[1,16,6,6],f32>
}
