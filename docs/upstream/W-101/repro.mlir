func.func @main(%x: !torch.vtensor<[64],f32>) -> !torch.vtensor<[64],f32> {
  %c = torch.constant.float 1.0e+04
  %a = torch.aten.mul.Scalar %x, %c : !torch.vtensor<[64],f32>, !torch.float -> !torch.vtensor<[64],f32>
  %r = torch.aten.sin %a : !torch.vtensor<[64],f32> -> !torch.vtensor<[64],f32>
  return %r : !torch.vtensor<[64],f32>
}
