func.func @main(%x: !torch.vtensor<[4,8,17],f32>, %w: !torch.vtensor<[2,8,3],f32>) -> !torch.vtensor<[4,2,17],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.none
  %2 = torch.constant.int 1
  %3 = torch.prim.ListConstruct %2 : (!torch.int) -> !torch.list<int>
  %4 = torch.constant.bool false
  %5 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %6 = torch.aten.convolution %x, %w, %1, %3, %3, %3, %4, %5, %2 : !torch.vtensor<[4,8,17],f32>, !torch.vtensor<[2,8,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[4,2,17],f32>
  return %6 : !torch.vtensor<[4,2,17],f32>
}
