func.func @main(%x: !torch.vtensor<[4],f16>) -> !torch.vtensor<[6],f16> {
  %i1 = torch.constant.int 1
  %p = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %z = torch.constant.float 1.000000e-01
  %y = torch.aten.constant_pad_nd %x, %p, %z : !torch.vtensor<[4],f16>, !torch.list<int>, !torch.float -> !torch.vtensor<[6],f16>
  return %y : !torch.vtensor<[6],f16>
}
