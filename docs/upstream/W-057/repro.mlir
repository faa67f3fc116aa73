func.func @main(%x: !torch.vtensor<[2,2,4,5],f32>, %w: !torch.vtensor<[3,2,1,3],f32>) -> !torch.vtensor<[2,3,2,5],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.none
  %2 = torch.constant.int 2
  %3 = torch.constant.int 1
  %4 = torch.prim.ListConstruct %2, %3 : (!torch.int, !torch.int) -> !torch.list<int>
  %5 = torch.constant.int 0
  %6 = torch.prim.ListConstruct %5, %3 : (!torch.int, !torch.int) -> !torch.list<int>
  %7 = torch.prim.ListConstruct %3, %3 : (!torch.int, !torch.int) -> !torch.list<int>
  %8 = torch.constant.bool false
  %9 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %10 = torch.aten.convolution %x, %w, %1, %4, %6, %7, %8, %9, %3 : !torch.vtensor<[2,2,4,5],f32>, !torch.vtensor<[3,2,1,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[2,3,2,5],f32>
  return %10 : !torch.vtensor<[2,3,2,5],f32>
}
