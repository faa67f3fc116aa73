func.func @main(%x: !torch.vtensor<[64],f32>) -> !torch.vtensor<[64],f32> {
  %s = torch.constant.str "tanh"
  %y = torch.aten.gelu %x, %s : !torch.vtensor<[64],f32>, !torch.str -> !torch.vtensor<[64],f32>
  return %y : !torch.vtensor<[64],f32>
}
