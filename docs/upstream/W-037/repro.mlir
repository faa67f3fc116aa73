func.func @main(%x: !torch.vtensor<[2,8],f32>) -> !torch.vtensor<[2],f32> {
  %i1 = torch.constant.int 1
  %f = torch.constant.bool false
  %d = torch.prim.ListConstruct %i1 : (!torch.int) -> !torch.list<int>
  %y = torch.aten.logsumexp %x, %d, %f : !torch.vtensor<[2,8],f32>, !torch.list<int>, !torch.bool -> !torch.vtensor<[2],f32>
  return %y : !torch.vtensor<[2],f32>
}
