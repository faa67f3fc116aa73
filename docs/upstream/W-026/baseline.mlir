func.func @main(%x: !torch.vtensor<[1,64,30,30],f32>, %w: !torch.vtensor<[64,8,3,3],f32>) -> !torch.vtensor<[1,8,28,28],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %none = torch.constant.none
  %f = torch.constant.bool false
  %s = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %p = torch.prim.ListConstruct %i0, %i0 : (!torch.int, !torch.int) -> !torch.list<int>
  %o = torch.prim.ListConstruct : () -> !torch.list<int>
  %i3 = torch.constant.int 3
  %i8 = torch.constant.int 8
  %i64 = torch.constant.int 64
  %d = torch.prim.ListConstruct %i8, %i64, %i3, %i3 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %v = torch.aten.view %w, %d : !torch.vtensor<[64,8,3,3],f32>, !torch.list<int> -> !torch.vtensor<[8,64,3,3],f32>
  %y = torch.aten.convolution %x, %v, %none, %s, %p, %s, %f, %o, %i1 : !torch.vtensor<[1,64,30,30],f32>, !torch.vtensor<[8,64,3,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,8,28,28],f32>
  return %y : !torch.vtensor<[1,8,28,28],f32>
}
