func.func @main(%x: !torch.vtensor<[1,4,1,8],f32>, %w: !torch.vtensor<[4,4,2,3],f32>) -> !torch.vtensor<[1,4,8,2],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.none
  %2 = torch.constant.int 1
  %3 = torch.prim.ListConstruct %2, %2 : (!torch.int, !torch.int) -> !torch.list<int>
  %4 = torch.constant.bool false
  %5 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %6 = torch.aten.convolution %x, %w, %1, %3, %3, %3, %4, %5, %2 : !torch.vtensor<[1,4,1,8],f32>, !torch.vtensor<[4,4,2,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,4,2,8],f32>
  %7 = torch.constant.int 0
  %8 = torch.constant.int 3
  %9 = torch.constant.int 2
  %10 = torch.prim.ListConstruct %7, %2, %8, %9 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %11 = torch.aten.permute %6, %10 : !torch.vtensor<[1,4,2,8],f32>, !torch.list<int> -> !torch.vtensor<[1,4,8,2],f32>
  return %11 : !torch.vtensor<[1,4,8,2],f32>
}
