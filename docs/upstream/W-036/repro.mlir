func.func @main(%x: !torch.vtensor<[8],si8>) -> !torch.vtensor<[8],si8> {
  %i1 = torch.constant.int 1
  %y = torch.aten.mul.Scalar %x, %i1 : !torch.vtensor<[8],si8>, !torch.int -> !torch.vtensor<[8],si8>
  return %y : !torch.vtensor<[8],si8>
}
