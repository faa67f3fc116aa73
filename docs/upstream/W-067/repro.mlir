func.func @main(%x: !torch.vtensor<[8,2,7,9],f32>, %w: !torch.vtensor<[12,9,2,7],f32>) -> !torch.vtensor<[8,12,3,3],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 0
  %2 = torch.constant.int 2
  %3 = torch.constant.int 3
  %4 = torch.constant.int 1
  %5 = torch.prim.ListConstruct %1, %2, %3, %4 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %6 = torch.aten.permute %w, %5 : !torch.vtensor<[12,9,2,7],f32>, !torch.list<int> -> !torch.vtensor<[12,2,7,9],f32>
  %7 = torch.aten.permute %w, %5 : !torch.vtensor<[12,9,2,7],f32>, !torch.list<int> -> !torch.vtensor<[12,2,7,9],f32>
  %8 = torch.constant.none
  %9 = torch.prim.ListConstruct %4, %4 : (!torch.int, !torch.int) -> !torch.list<int>
  %10 = torch.constant.bool false
  %11 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %12 = torch.aten.convolution %x, %7, %8, %9, %9, %9, %10, %11, %4 : !torch.vtensor<[8,2,7,9],f32>, !torch.vtensor<[12,2,7,9],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[8,12,3,3],f32>
  return %12 : !torch.vtensor<[8,12,3,3],f32>
}
