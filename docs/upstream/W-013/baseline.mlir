func.func @main(%x: !torch.vtensor<[1,32,30,30],f16>, %w: !torch.vtensor<[32,32,3,3],f16>) -> !torch.vtensor<[1,32,28,28],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %none = torch.constant.none
  %f = torch.constant.bool false
  %s = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %p = torch.prim.ListConstruct %i0, %i0 : (!torch.int, !torch.int) -> !torch.list<int>
  %o = torch.prim.ListConstruct : () -> !torch.list<int>
  %i6 = torch.constant.int 6
  %i16 = torch.constant.int 16
  %i32 = torch.constant.int 32
  %xf = torch.prims.convert_element_type %x, %i6 : !torch.vtensor<[1,32,30,30],f16>, !torch.int -> !torch.vtensor<[1,32,30,30],f32>
  %wf = torch.prims.convert_element_type %w, %i6 : !torch.vtensor<[32,32,3,3],f16>, !torch.int -> !torch.vtensor<[32,32,3,3],f32>
  %wa = torch.aten.slice.Tensor %wf, %i0, %i0, %i16, %i1 : !torch.vtensor<[32,32,3,3],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[16,32,3,3],f32>
  %wb = torch.aten.slice.Tensor %wf, %i0, %i16, %i32, %i1 : !torch.vtensor<[32,32,3,3],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[16,32,3,3],f32>
  %l = torch.prim.ListConstruct %wa, %wb : (!torch.vtensor<[16,32,3,3],f32>, !torch.vtensor<[16,32,3,3],f32>) -> !torch.list<vtensor<[16,32,3,3],f32>>
  %wc = torch.aten.cat %l, %i0 : !torch.list<vtensor<[16,32,3,3],f32>>, !torch.int -> !torch.vtensor<[32,32,3,3],f32>
  %y = torch.aten.convolution %xf, %wc, %none, %s, %p, %s, %f, %o, %i1 : !torch.vtensor<[1,32,30,30],f32>, !torch.vtensor<[32,32,3,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,32,28,28],f32>
  return %y : !torch.vtensor<[1,32,28,28],f32>
}
