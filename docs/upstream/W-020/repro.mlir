func.func @main(%x: !torch.vtensor<[4],f64>) -> !torch.vtensor<[4],f64> {
  %i1 = torch.constant.int 1
  %y = torch.aten.add.Tensor %x, %x, %i1 : !torch.vtensor<[4],f64>, !torch.vtensor<[4],f64>, !torch.int -> !torch.vtensor<[4],f64>
  return %y : !torch.vtensor<[4],f64>
}
