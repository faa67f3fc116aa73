func.func @main(%x: !torch.vtensor<[8],f32>) -> !torch.vtensor<[9],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 1
  %2 = torch.constant.int 0
  %3 = torch.prim.ListConstruct %1, %2 : (!torch.int, !torch.int) -> !torch.list<int>
  %4 = torch.constant.float 0.000000e+00
  %5 = torch.aten.constant_pad_nd %x, %3, %4 : !torch.vtensor<[8],f32>, !torch.list<int>, !torch.float -> !torch.vtensor<[9],f32>
  return %5 : !torch.vtensor<[9],f32>
}
