func.func @main(%x: !torch.vtensor<[1,4,2,2],f32>, %w: !torch.vtensor<[2,4,3,3],f32>) -> !torch.vtensor<[1,2,1,1],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.none
  %2 = torch.constant.int 2
  %3 = torch.prim.ListConstruct %2, %2 : (!torch.int, !torch.int) -> !torch.list<int>
  %4 = torch.constant.int 1
  %5 = torch.prim.ListConstruct %4, %4 : (!torch.int, !torch.int) -> !torch.list<int>
  %6 = torch.constant.bool false
  %7 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %8 = torch.aten.convolution %x, %w, %1, %3, %5, %5, %6, %7, %4 : !torch.vtensor<[1,4,2,2],f32>, !torch.vtensor<[2,4,3,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,2,1,1],f32>
  return %8 : !torch.vtensor<[1,2,1,1],f32>
}
