func.func @main(%x: !torch.vtensor<[1024,256],f32>, %i: !torch.vtensor<[1024],si64>, %w: !torch.vtensor<[256,256],f32>) -> !torch.vtensor<[1024,256],f32> {
  %i0 = torch.constant.int 0
  %g = torch.aten.index_select %x, %i0, %i : !torch.vtensor<[1024,256],f32>, !torch.int, !torch.vtensor<[1024],si64> -> !torch.vtensor<[1024,256],f32>
  %y = torch.aten.mm %g, %w : !torch.vtensor<[1024,256],f32>, !torch.vtensor<[256,256],f32> -> !torch.vtensor<[1024,256],f32>
  return %y : !torch.vtensor<[1024,256],f32>
}
