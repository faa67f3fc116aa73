func.func @main(%x: !torch.vtensor<[1,8,9,9],f16>, %w: !torch.vtensor<[8,8,4,4],f16>) -> !torch.vtensor<[1,8,10,10],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 2
  %2 = torch.constant.int 0
  %3 = torch.constant.int 4
  %4 = torch.aten.slice.Tensor %w, %1, %2, %3, %1 : !torch.vtensor<[8,8,4,4],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[8,8,2,4],f16>
  %5 = torch.constant.int 3
  %6 = torch.aten.slice.Tensor %4, %5, %2, %3, %1 : !torch.vtensor<[8,8,2,4],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[8,8,2,2],f16>
  %7 = torch.constant.none
  %8 = torch.constant.int 1
  %9 = torch.prim.ListConstruct %8, %8 : (!torch.int, !torch.int) -> !torch.list<int>
  %10 = torch.constant.bool false
  %11 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %12 = torch.aten.convolution %x, %6, %7, %9, %9, %9, %10, %11, %8 : !torch.vtensor<[1,8,9,9],f16>, !torch.vtensor<[8,8,2,2],f16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,8,10,10],f32>
  return %12 : !torch.vtensor<[1,8,10,10],f32>
}
