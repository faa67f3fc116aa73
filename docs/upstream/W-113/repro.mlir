func.func @main(%x: !torch.vtensor<[5,17],f32>) -> !torch.vtensor<[5,17],f32> {
  %dim = torch.constant.int 1
  %none = torch.constant.none
  %y = torch.aten.cumsum %x, %dim, %none : !torch.vtensor<[5,17],f32>, !torch.int, !torch.none -> !torch.vtensor<[5,17],f32>
  return %y : !torch.vtensor<[5,17],f32>
}
