func.func @main(%x: !torch.vtensor<[2,4,5,4],f32>, %dy: !torch.vtensor<[2,6,7,6],f32>) -> !torch.vtensor<[6,4,1,1],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 1
  %2 = torch.constant.int 0
  %3 = torch.constant.int 2
  %4 = torch.constant.int 3
  %5 = torch.prim.ListConstruct %1, %2, %3, %4 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %6 = torch.aten.permute %x, %5 : !torch.vtensor<[2,4,5,4],f32>, !torch.list<int> -> !torch.vtensor<[4,2,5,4],f32>
  %7 = torch.aten.permute %dy, %5 : !torch.vtensor<[2,6,7,6],f32>, !torch.list<int> -> !torch.vtensor<[6,2,7,6],f32>
  %8 = torch.constant.none
  %9 = torch.prim.ListConstruct %1, %1 : (!torch.int, !torch.int) -> !torch.list<int>
  %10 = torch.constant.bool false
  %11 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %12 = torch.aten.convolution %6, %7, %8, %9, %9, %9, %10, %11, %1 : !torch.vtensor<[4,2,5,4],f32>, !torch.vtensor<[6,2,7,6],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[4,6,1,1],f32>
  %13 = torch.aten.permute %12, %5 : !torch.vtensor<[4,6,1,1],f32>, !torch.list<int> -> !torch.vtensor<[6,4,1,1],f32>
  return %13 : !torch.vtensor<[6,4,1,1],f32>
}
