func.func @main(%x: !torch.vtensor<[1,1,5],f32>, %w: !torch.vtensor<[2,1,3],f32>) -> !torch.vtensor<[1,2,1],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i4 = torch.constant.int 4
  %none = torch.constant.none
  %f = torch.constant.bool false
  %s = torch.prim.ListConstruct %i4 : (!torch.int) -> !torch.list<int>
  %p = torch.prim.ListConstruct %i0 : (!torch.int) -> !torch.list<int>
  %d = torch.prim.ListConstruct %i1 : (!torch.int) -> !torch.list<int>
  %o = torch.prim.ListConstruct : () -> !torch.list<int>
  %y = torch.aten.convolution %x, %w, %none, %s, %p, %d, %f, %o, %i1 : !torch.vtensor<[1,1,5],f32>, !torch.vtensor<[2,1,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,2,1],f32>
  return %y : !torch.vtensor<[1,2,1],f32>
}
