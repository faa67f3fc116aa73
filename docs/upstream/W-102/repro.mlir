func.func @main(%x: !torch.vtensor<[16],f32>) -> !torch.vtensor<[16],f32> {
  %c = torch.constant.float -2.0
  %d = torch.constant.float 3.0
  %a = torch.aten.mul.Scalar %x, %c : !torch.vtensor<[16],f32>, !torch.float -> !torch.vtensor<[16],f32>
  %e = torch.aten.mul.Scalar %x, %d : !torch.vtensor<[16],f32>, !torch.float -> !torch.vtensor<[16],f32>
  %r = torch.aten.pow.Tensor_Tensor %a, %e : !torch.vtensor<[16],f32>, !torch.vtensor<[16],f32> -> !torch.vtensor<[16],f32>
  return %r : !torch.vtensor<[16],f32>
}
