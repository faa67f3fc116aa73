func.func @main(%x: !torch.vtensor<[1,64,30,30],f32>, %w: !torch.vtensor<[64,8,3,3],f32>) -> !torch.vtensor<[1,64,28,28],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %none = torch.constant.none
  %f = torch.constant.bool false
  %s = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %p = torch.prim.ListConstruct %i0, %i0 : (!torch.int, !torch.int) -> !torch.list<int>
  %o = torch.prim.ListConstruct : () -> !torch.list<int>
  %g = torch.constant.int 8
  %y = torch.aten.convolution %x, %w, %none, %s, %p, %s, %f, %o, %g : !torch.vtensor<[1,64,30,30],f32>, !torch.vtensor<[64,8,3,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,64,28,28],f32>
  return %y : !torch.vtensor<[1,64,28,28],f32>
}
