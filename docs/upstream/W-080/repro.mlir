func.func @main(%x: !torch.vtensor<[6,16],f32>, %rows: !torch.vtensor<[6],si64>) -> !torch.vtensor<[6,12],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 1
  %2 = torch.constant.int 0
  %3 = torch.constant.int 12
  %4 = torch.aten.slice.Tensor %x, %1, %2, %3, %1 : !torch.vtensor<[6,16],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[6,12],f32>
  %5 = torch.aten.index_select %4, %2, %rows : !torch.vtensor<[6,12],f32>, !torch.int, !torch.vtensor<[6],si64> -> !torch.vtensor<[6,12],f32>
  return %5 : !torch.vtensor<[6,12],f32>
}
