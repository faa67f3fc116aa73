func.func @main(%x: !torch.vtensor<[64],f32>) -> !torch.vtensor<[64],f32> {
  %one = torch.constant.int 1
  %f1 = torch.constant.float 1.0
  %z = torch.constant.float 0.0
  %a = torch.aten.add.Scalar %x, %f1, %one : !torch.vtensor<[64],f32>, !torch.float, !torch.int -> !torch.vtensor<[64],f32>
  %m = torch.aten.mul.Scalar %x, %z : !torch.vtensor<[64],f32>, !torch.float -> !torch.vtensor<[64],f32>
  %c = torch.constant.float 1.0e-01
  %e = torch.aten.add.Scalar %m, %c, %one : !torch.vtensor<[64],f32>, !torch.float, !torch.int -> !torch.vtensor<[64],f32>
  %r = torch.aten.fmod.Tensor %a, %e : !torch.vtensor<[64],f32>, !torch.vtensor<[64],f32> -> !torch.vtensor<[64],f32>
  return %r : !torch.vtensor<[64],f32>
}
