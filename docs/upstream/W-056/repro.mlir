func.func @main(%x: !torch.vtensor<[4,4,1,3],f32>, %w: !torch.vtensor<[8,4,1,2],f32>) -> !torch.vtensor<[4,8,1,4],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.aten.relu %x : !torch.vtensor<[4,4,1,3],f32> -> !torch.vtensor<[4,4,1,3],f32>
  %2 = torch.constant.int 0
  %3 = torch.constant.int 2
  %4 = torch.constant.int 1
  %5 = torch.aten.slice.Tensor %1, %2, %2, %3, %4 : !torch.vtensor<[4,4,1,3],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[2,4,1,3],f32>
  %6 = torch.constant.int 4
  %7 = torch.aten.slice.Tensor %1, %2, %3, %6, %4 : !torch.vtensor<[4,4,1,3],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[2,4,1,3],f32>
  %8 = torch.prim.ListConstruct %5, %7 : (!torch.vtensor<[2,4,1,3],f32>, !torch.vtensor<[2,4,1,3],f32>) -> !torch.list<vtensor<[2,4,1,3],f32>>
  %9 = torch.aten.cat %8, %2 : !torch.list<vtensor<[2,4,1,3],f32>>, !torch.int -> !torch.vtensor<[4,4,1,3],f32>
  %10 = torch.constant.none
  %11 = torch.prim.ListConstruct %4, %4 : (!torch.int, !torch.int) -> !torch.list<int>
  %12 = torch.prim.ListConstruct %2, %4 : (!torch.int, !torch.int) -> !torch.list<int>
  %13 = torch.constant.bool false
  %14 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %15 = torch.aten.convolution %9, %w, %10, %11, %12, %11, %13, %14, %4 : !torch.vtensor<[4,4,1,3],f32>, !torch.vtensor<[8,4,1,2],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[4,8,1,4],f32>
  return %15 : !torch.vtensor<[4,8,1,4],f32>
}
