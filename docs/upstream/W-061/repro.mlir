func.func @main(%x: !torch.vtensor<[1,3,1,5],f32>, %w: !torch.vtensor<[8,3,1,2],f32>, %dy: !torch.vtensor<[1,8,1,6],f32>) -> (!torch.vtensor<[1,8,1,6],f32>, !torch.vtensor<[8,3,1,2],f32>) attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.none
  %2 = torch.constant.int 1
  %3 = torch.prim.ListConstruct %2, %2 : (!torch.int, !torch.int) -> !torch.list<int>
  %4 = torch.constant.int 0
  %5 = torch.prim.ListConstruct %4, %2 : (!torch.int, !torch.int) -> !torch.list<int>
  %6 = torch.constant.bool false
  %7 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %8 = torch.aten.convolution %x, %w, %1, %3, %5, %3, %6, %7, %2 : !torch.vtensor<[1,3,1,5],f32>, !torch.vtensor<[8,3,1,2],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,8,1,6],f32>
  %9 = torch.constant.int 2
  %10 = torch.constant.int 3
  %11 = torch.prim.ListConstruct %2, %4, %9, %10 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %12 = torch.aten.permute %x, %11 : !torch.vtensor<[1,3,1,5],f32>, !torch.list<int> -> !torch.vtensor<[3,1,1,5],f32>
  %13 = torch.aten.permute %dy, %11 : !torch.vtensor<[1,8,1,6],f32>, !torch.list<int> -> !torch.vtensor<[8,1,1,6],f32>
  %14 = torch.aten.convolution %12, %13, %1, %3, %5, %3, %6, %7, %2 : !torch.vtensor<[3,1,1,5],f32>, !torch.vtensor<[8,1,1,6],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[3,8,1,2],f32>
  %15 = torch.aten.permute %14, %11 : !torch.vtensor<[3,8,1,2],f32>, !torch.list<int> -> !torch.vtensor<[8,3,1,2],f32>
  return %8, %15 : !torch.vtensor<[1,8,1,6],f32>, !torch.vtensor<[8,3,1,2],f32>
}
