func.func @main(%x: !torch.vtensor<[33,27],f32>) -> !torch.vtensor<[33,9],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i3 = torch.constant.int 3
  %i27 = torch.constant.int 27
  %w = torch.aten.slice.Tensor %x, %i1, %i0, %i27, %i3 : !torch.vtensor<[33,27],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[33,9],f32>
  %first = torch.prim.ListConstruct %i0 : (!torch.int) -> !torch.list<int>
  %y = torch.aten.flip %w, %first : !torch.vtensor<[33,9],f32>, !torch.list<int> -> !torch.vtensor<[33,9],f32>
  return %y : !torch.vtensor<[33,9],f32>
}
