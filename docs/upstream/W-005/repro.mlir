func.func @main(%x: !torch.vtensor<[2,7,4],f32>, %v: !torch.vtensor<[2,4,4],f32>) -> !torch.vtensor<[2,7,4],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i2 = torch.constant.int 2
  %t = torch.constant.bool true
  %none = torch.constant.none
  %d = torch.prim.ListConstruct %i2 : (!torch.int) -> !torch.list<int>
  %e = torch.aten.exp %x : !torch.vtensor<[2,7,4],f32> -> !torch.vtensor<[2,7,4],f32>
  %z = torch.aten.sum.dim_IntList %e, %d, %t, %none : !torch.vtensor<[2,7,4],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[2,7,1],f32>
  %o = torch.aten.bmm %e, %v : !torch.vtensor<[2,7,4],f32>, !torch.vtensor<[2,4,4],f32> -> !torch.vtensor<[2,7,4],f32>
  %y = torch.aten.div.Tensor %o, %z : !torch.vtensor<[2,7,4],f32>, !torch.vtensor<[2,7,1],f32> -> !torch.vtensor<[2,7,4],f32>
  return %y : !torch.vtensor<[2,7,4],f32>
}
