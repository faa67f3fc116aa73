func.func @main(%x: !torch.vtensor<[2,8,7,9],f16>, %w: !torch.vtensor<[12,8,4,4],f16>) -> !torch.vtensor<[2,12,5,7],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 2
  %2 = torch.constant.int 0
  %3 = torch.constant.int 3
  %4 = torch.constant.int 1
  %5 = torch.aten.slice.Tensor %w, %1, %2, %3, %4 : !torch.vtensor<[12,8,4,4],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[12,8,3,4],f16>
  %6 = torch.aten.slice.Tensor %5, %3, %2, %3, %4 : !torch.vtensor<[12,8,3,4],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[12,8,3,3],f16>
  %7 = torch.constant.none
  %8 = torch.prim.ListConstruct %4, %4 : (!torch.int, !torch.int) -> !torch.list<int>
  %9 = torch.prim.ListConstruct %2, %2 : (!torch.int, !torch.int) -> !torch.list<int>
  %10 = torch.constant.bool false
  %11 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %12 = torch.aten.convolution %x, %6, %7, %8, %9, %8, %10, %11, %4 : !torch.vtensor<[2,8,7,9],f16>, !torch.vtensor<[12,8,3,3],f16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[2,12,5,7],f32>
  return %12 : !torch.vtensor<[2,12,5,7],f32>
}
