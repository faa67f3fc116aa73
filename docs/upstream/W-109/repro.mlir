func.func @main(%x: !torch.vtensor<[99,33],f32>, %q: !torch.vtensor<[99,33],f32>) -> (!torch.vtensor<[99,1],f32>, !torch.vtensor<[99],f32>) {
  %i1 = torch.constant.int 1
  %true = torch.constant.bool true
  %false = torch.constant.bool false
  %none = torch.constant.none
  %last = torch.prim.ListConstruct %i1 : (!torch.int) -> !torch.list<int>
  %r = torch.aten.sum.dim_IntList %x, %last, %true, %none : !torch.vtensor<[99,33],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[99,1],f32>
  %y = torch.aten.mul.Tensor %q, %r : !torch.vtensor<[99,33],f32>, !torch.vtensor<[99,1],f32> -> !torch.vtensor<[99,33],f32>
  %s = torch.aten.sum.dim_IntList %y, %last, %false, %none : !torch.vtensor<[99,33],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[99],f32>
  return %r, %s : !torch.vtensor<[99,1],f32>, !torch.vtensor<[99],f32>
}
