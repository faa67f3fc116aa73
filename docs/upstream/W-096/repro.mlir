func.func @main(%x: !torch.vtensor<[2,12,9,3],f32>, %w: !torch.vtensor<[3,3,3,9],f32>) -> !torch.vtensor<[2,3,10,1],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 0
  %2 = torch.constant.int 3
  %3 = torch.constant.int 1
  %4 = torch.constant.int 2
  %5 = torch.prim.ListConstruct %1, %2, %3, %4 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %6 = torch.aten.permute %x, %5 : !torch.vtensor<[2,12,9,3],f32>, !torch.list<int> -> !torch.vtensor<[2,3,12,9],f32>
  %7 = torch.constant.none
  %8 = torch.prim.ListConstruct %3, %3 : (!torch.int, !torch.int) -> !torch.list<int>
  %9 = torch.prim.ListConstruct %1, %1 : (!torch.int, !torch.int) -> !torch.list<int>
  %10 = torch.constant.bool false
  %11 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %12 = torch.aten.convolution %6, %w, %7, %8, %9, %8, %10, %11, %3 : !torch.vtensor<[2,3,12,9],f32>, !torch.vtensor<[3,3,3,9],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[2,3,10,1],f32>
  return %12 : !torch.vtensor<[2,3,10,1],f32>
}
