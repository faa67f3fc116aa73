func.func @main(%x: !torch.vtensor<[1,8,8,16],f16>, %w1: !torch.vtensor<[16,3,3,16],f16>, %w2: !torch.vtensor<[16,3,3,16],f16>) -> !torch.vtensor<[1,4,4,16],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 0
  %2 = torch.constant.int 3
  %3 = torch.constant.int 1
  %4 = torch.constant.int 2
  %5 = torch.prim.ListConstruct %1, %2, %3, %4 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %6 = torch.aten.permute %x, %5 : !torch.vtensor<[1,8,8,16],f16>, !torch.list<int> -> !torch.vtensor<[1,16,8,8],f16>
  %7 = torch.aten.permute %w1, %5 : !torch.vtensor<[16,3,3,16],f16>, !torch.list<int> -> !torch.vtensor<[16,16,3,3],f16>
  %8 = torch.constant.none
  %9 = torch.prim.ListConstruct %3, %3 : (!torch.int, !torch.int) -> !torch.list<int>
  %10 = torch.prim.ListConstruct %1, %1 : (!torch.int, !torch.int) -> !torch.list<int>
  %11 = torch.constant.bool false
  %12 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %13 = torch.aten.convolution %6, %7, %8, %9, %10, %9, %11, %12, %3 : !torch.vtensor<[1,16,8,8],f16>, !torch.vtensor<[16,16,3,3],f16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,16,6,6],f32>
  %14 = torch.constant.int 5
  %15 = torch.prims.convert_element_type %13, %14 : !torch.vtensor<[1,16,6,6],f32>, !torch.int -> !torch.vtensor<[1,16,6,6],f16>
  %16 = torch.aten.permute %w2, %5 : !torch.vtensor<[16,3,3,16],f16>, !torch.list<int> -> !torch.vtensor<[16,16,3,3],f16>
  %17 = torch.aten.convolution %15, %16, %8, %9, %10, %9, %11, %12, %3 : !torch.vtensor<[1,16,6,6],f16>, !torch.vtensor<[16,16,3,3],f16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,16,4,4],f32>
  %18 = torch.prim.ListConstruct %1, %4, %2, %3 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %19 = torch.aten.permute %17, %18 : !torch.vtensor<[1,16,4,4],f32>, !torch.list<int> -> !torch.vtensor<[1,4,4,16],f32>
  return %19 : !torch.vtensor<[1,4,4,16],f32>
}
