func.func @main(%x: !torch.vtensor<[2,64,28,28],f16>, %w: !torch.vtensor<[64,64,3,3],f32>) -> !torch.vtensor<[2,64,28,28],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 6
  %2 = torch.prims.convert_element_type %x, %1 : !torch.vtensor<[2,64,28,28],f16>, !torch.int -> !torch.vtensor<[2,64,28,28],f32>
  %3 = torch.aten.relu %2 : !torch.vtensor<[2,64,28,28],f32> -> !torch.vtensor<[2,64,28,28],f32>
  %4 = torch.constant.none
  %5 = torch.constant.int 1
  %6 = torch.prim.ListConstruct %5, %5 : (!torch.int, !torch.int) -> !torch.list<int>
  %7 = torch.constant.bool false
  %8 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %9 = torch.aten.convolution %3, %w, %4, %6, %6, %6, %7, %8, %5 : !torch.vtensor<[2,64,28,28],f32>, !torch.vtensor<[64,64,3,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[2,64,28,28],f32>
  return %9 : !torch.vtensor<[2,64,28,28],f32>
}
