func.func @main(%x: !torch.vtensor<[1,16,6,8],f32>, %w: !torch.vtensor<[16,16,3,3],f32>) -> !torch.vtensor<[1,16,6,4],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.none
  %2 = torch.constant.int 1
  %3 = torch.prim.ListConstruct %2, %2 : (!torch.int, !torch.int) -> !torch.list<int>
  %4 = torch.constant.int 0
  %5 = torch.prim.ListConstruct %4, %4 : (!torch.int, !torch.int) -> !torch.list<int>
  %6 = torch.constant.bool false
  %7 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %8 = torch.aten.convolution %x, %w, %1, %3, %5, %3, %6, %7, %2 : !torch.vtensor<[1,16,6,8],f32>, !torch.vtensor<[16,16,3,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,16,4,6],f32>
  %9 = torch.constant.int 3
  %10 = torch.constant.int 2
  %11 = torch.prim.ListConstruct %4, %2, %9, %10 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %12 = torch.aten.permute %8, %11 : !torch.vtensor<[1,16,4,6],f32>, !torch.list<int> -> !torch.vtensor<[1,16,6,4],f32>
  return %12 : !torch.vtensor<[1,16,6,4],f32>
}
