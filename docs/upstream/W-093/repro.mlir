func.func @main(%x: !torch.vtensor<[2,4,1,8],f32>, %dy: !torch.vtensor<[2,4,1,8],f32>) -> !torch.vtensor<[4,4,1,3],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 0
  %2 = torch.constant.int 1
  %3 = torch.aten.slice.Tensor %x, %1, %1, %2, %2 : !torch.vtensor<[2,4,1,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,4,1,8],f32>
  %4 = torch.constant.int 2
  %5 = torch.aten.slice.Tensor %x, %1, %2, %4, %2 : !torch.vtensor<[2,4,1,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,4,1,8],f32>
  %6 = torch.prim.ListConstruct %3, %5 : (!torch.vtensor<[1,4,1,8],f32>, !torch.vtensor<[1,4,1,8],f32>) -> !torch.list<vtensor<[1,4,1,8],f32>>
  %7 = torch.aten.cat %6, %1 : !torch.list<vtensor<[1,4,1,8],f32>>, !torch.int -> !torch.vtensor<[2,4,1,8],f32>
  %8 = torch.constant.int 3
  %9 = torch.prim.ListConstruct %2, %1, %4, %8 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %10 = torch.aten.permute %7, %9 : !torch.vtensor<[2,4,1,8],f32>, !torch.list<int> -> !torch.vtensor<[4,2,1,8],f32>
  %11 = torch.aten.permute %dy, %9 : !torch.vtensor<[2,4,1,8],f32>, !torch.list<int> -> !torch.vtensor<[4,2,1,8],f32>
  %12 = torch.constant.none
  %13 = torch.prim.ListConstruct %2, %2 : (!torch.int, !torch.int) -> !torch.list<int>
  %14 = torch.prim.ListConstruct %1, %2 : (!torch.int, !torch.int) -> !torch.list<int>
  %15 = torch.constant.bool false
  %16 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %17 = torch.aten.convolution %10, %11, %12, %13, %14, %13, %15, %16, %2 : !torch.vtensor<[4,2,1,8],f32>, !torch.vtensor<[4,2,1,8],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[4,4,1,3],f32>
  %18 = torch.aten.permute %17, %9 : !torch.vtensor<[4,4,1,3],f32>, !torch.list<int> -> !torch.vtensor<[4,4,1,3],f32>
  return %18 : !torch.vtensor<[4,4,1,3],f32>
}
