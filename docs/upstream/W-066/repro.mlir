func.func @main(%x: !torch.vtensor<[16,2,17,17],f16>, %w: !torch.vtensor<[8,2,8,8],f16>) -> !torch.vtensor<[16,8,3,3],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.none
  %2 = torch.constant.int 1
  %3 = torch.prim.ListConstruct %2, %2 : (!torch.int, !torch.int) -> !torch.list<int>
  %4 = torch.constant.int 0
  %5 = torch.prim.ListConstruct %4, %4 : (!torch.int, !torch.int) -> !torch.list<int>
  %6 = torch.constant.int 2
  %7 = torch.prim.ListConstruct %6, %6 : (!torch.int, !torch.int) -> !torch.list<int>
  %8 = torch.constant.bool false
  %9 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %10 = torch.aten.convolution %x, %w, %1, %3, %5, %7, %8, %9, %2 : !torch.vtensor<[16,2,17,17],f16>, !torch.vtensor<[8,2,8,8],f16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[16,8,3,3],f32>
  return %10 : !torch.vtensor<[16,8,3,3],f32>
}
