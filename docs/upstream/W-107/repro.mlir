func.func @main(%x: !torch.vtensor<[16],f64>) -> !torch.vtensor<[16],f64> {
  %c = torch.constant.float 1.0e-20
  %d = torch.constant.float 1.0e+20
  %a = torch.aten.mul.Scalar %x, %c : !torch.vtensor<[16],f64>, !torch.float -> !torch.vtensor<[16],f64>
  %l = torch.aten.log1p %a : !torch.vtensor<[16],f64> -> !torch.vtensor<[16],f64>
  %r = torch.aten.mul.Scalar %l, %d : !torch.vtensor<[16],f64>, !torch.float -> !torch.vtensor<[16],f64>
  return %r : !torch.vtensor<[16],f64>
}
