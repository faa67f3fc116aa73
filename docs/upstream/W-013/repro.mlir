func.func @main(%x: !torch.vtensor<[1,32,30,30],f16>, %w: !torch.vtensor<[32,32,3,3],f16>) -> !torch.vtensor<[1,32,28,28],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %none = torch.constant.none
  %f = torch.constant.bool false
  %s = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %p = torch.prim.ListConstruct %i0, %i0 : (!torch.int, !torch.int) -> !torch.list<int>
  %o = torch.prim.ListConstruct : () -> !torch.list<int>
  %y = torch.aten.convolution %x, %w, %none, %s, %p, %s, %f, %o, %i1 : !torch.vtensor<[1,32,30,30],f16>, !torch.vtensor<[32,32,3,3],f16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,32,28,28],f32>
  return %y : !torch.vtensor<[1,32,28,28],f32>
}
