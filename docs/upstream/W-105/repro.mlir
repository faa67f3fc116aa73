func.func @main(%x: !torch.vtensor<[64],f64>) -> !torch.vtensor<[64],ui8> {
  %int0 = torch.constant.int 0
  %c = torch.constant.float 200.0
  %a = torch.aten.mul.Scalar %x, %c : !torch.vtensor<[64],f64>, !torch.float -> !torch.vtensor<[64],f64>
  %r = torch.prims.convert_element_type %a, %int0 : !torch.vtensor<[64],f64>, !torch.int -> !torch.vtensor<[64],ui8>
  return %r : !torch.vtensor<[64],ui8>
}
