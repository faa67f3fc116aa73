func.func @main(%x: !torch.vtensor<[4],si32>) -> !torch.vtensor<[4],si32> {
  %one = torch.constant.int 1
  %c = torch.constant.int 16777217
  %a = torch.aten.add.Scalar %x, %c, %one : !torch.vtensor<[4],si32>, !torch.int, !torch.int -> !torch.vtensor<[4],si32>
  %r = torch.aten.neg %a : !torch.vtensor<[4],si32> -> !torch.vtensor<[4],si32>
  return %r : !torch.vtensor<[4],si32>
}
