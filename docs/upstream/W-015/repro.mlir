func.func @main(%x: !torch.vtensor<[1,32,9,3],bf16>, %w: !torch.vtensor<[2,32,1,1],f32>) -> !torch.vtensor<[1,2,3,1],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i3 = torch.constant.int 3
  %i6 = torch.constant.int 6
  %none = torch.constant.none
  %f = torch.constant.bool false
  %e = torch.prims.convert_element_type %x, %i6 : !torch.vtensor<[1,32,9,3],bf16>, !torch.int -> !torch.vtensor<[1,32,9,3],f32>
  %c = torch.aten.slice.Tensor %e, %i3, %i0, %i1, %i1 : !torch.vtensor<[1,32,9,3],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,32,9,1],f32>
  %s = torch.prim.ListConstruct %i3, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %p = torch.prim.ListConstruct %i0, %i0 : (!torch.int, !torch.int) -> !torch.list<int>
  %d = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %o = torch.prim.ListConstruct : () -> !torch.list<int>
  %y = torch.aten.convolution %c, %w, %none, %s, %p, %d, %f, %o, %i1 : !torch.vtensor<[1,32,9,1],f32>, !torch.vtensor<[2,32,1,1],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,2,3,1],f32>
  return %y : !torch.vtensor<[1,2,3,1],f32>
}
