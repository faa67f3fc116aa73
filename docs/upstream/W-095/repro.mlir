func.func @main(%x: !torch.vtensor<[1,15,1,13,7],bf16>, %w: !torch.vtensor<[15,1,1,5,5],bf16>) -> !torch.vtensor<[1,15,1,9,3],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.none
  %2 = torch.constant.int 1
  %3 = torch.prim.ListConstruct %2, %2, %2 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %4 = torch.constant.int 0
  %5 = torch.prim.ListConstruct %4, %4, %4 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %6 = torch.constant.bool false
  %7 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %8 = torch.constant.int 15
  %9 = torch.aten.convolution %x, %w, %1, %3, %5, %3, %6, %7, %8 : !torch.vtensor<[1,15,1,13,7],bf16>, !torch.vtensor<[15,1,1,5,5],bf16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,15,1,9,3],f32>
  return %9 : !torch.vtensor<[1,15,1,9,3],f32>
}
