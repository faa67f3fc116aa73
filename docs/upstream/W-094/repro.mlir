func.func @main(%x: !torch.vtensor<[1,13,3],f16>, %w: !torch.vtensor<[3,5,3],f16>) -> !torch.vtensor<[2,3,9],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 0
  %2 = torch.constant.int 2
  %3 = torch.constant.int 1
  %4 = torch.prim.ListConstruct %1, %2, %3 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %5 = torch.aten.permute %x, %4 : !torch.vtensor<[1,13,3],f16>, !torch.list<int> -> !torch.vtensor<[1,3,13],f16>
  %6 = torch.constant.int 3
  %7 = torch.constant.int 13
  %8 = torch.prim.ListConstruct %2, %6, %7 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %9 = torch.constant.bool false
  %10 = torch.aten.expand %5, %8, %9 : !torch.vtensor<[1,3,13],f16>, !torch.list<int>, !torch.bool -> !torch.vtensor<[2,3,13],f16>
  %11 = torch.aten.slice.Tensor %10, %1, %1, %3, %3 : !torch.vtensor<[2,3,13],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,3,13],f16>
  %12 = torch.aten.slice.Tensor %10, %1, %3, %2, %3 : !torch.vtensor<[2,3,13],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,3,13],f16>
  %13 = torch.prim.ListConstruct %11, %12 : (!torch.vtensor<[1,3,13],f16>, !torch.vtensor<[1,3,13],f16>) -> !torch.list<vtensor<[1,3,13],f16>>
  %14 = torch.aten.cat %13, %1 : !torch.list<vtensor<[1,3,13],f16>>, !torch.int -> !torch.vtensor<[2,3,13],f16>
  %15 = torch.aten.permute %w, %4 : !torch.vtensor<[3,5,3],f16>, !torch.list<int> -> !torch.vtensor<[3,3,5],f16>
  %16 = torch.constant.none
  %17 = torch.prim.ListConstruct %3 : (!torch.int) -> !torch.list<int>
  %18 = torch.prim.ListConstruct %1 : (!torch.int) -> !torch.list<int>
  %19 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %20 = torch.aten.convolution %14, %15, %16, %17, %18, %17, %9, %19, %3 : !torch.vtensor<[2,3,13],f16>, !torch.vtensor<[3,3,5],f16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[2,3,9],f32>
  return %20 : !torch.vtensor<[2,3,9],f32>
}
