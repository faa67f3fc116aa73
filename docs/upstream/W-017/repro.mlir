func.func @main(%x: !torch.vtensor<[2,4,6],f16>, %dy: !torch.vtensor<[2,4,6],f16>) -> (!torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) {
  %none = torch.constant.none
  %f = torch.constant.bool false
  %z = torch.constant.float 0.000000e+00
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i2 = torch.constant.int 2
  %i6 = torch.constant.int 6
  %d = torch.prim.ListConstruct %i0, %i2 : (!torch.int, !torch.int) -> !torch.list<int>
  %p = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %xf = torch.prims.convert_element_type %x, %i6 : !torch.vtensor<[2,4,6],f16>, !torch.int -> !torch.vtensor<[2,4,6],f32>
  %df = torch.prims.convert_element_type %dy, %i6 : !torch.vtensor<[2,4,6],f16>, !torch.int -> !torch.vtensor<[2,4,6],f32>
  %xp = torch.aten.constant_pad_nd %xf, %p, %z : !torch.vtensor<[2,4,6],f32>, !torch.list<int>, !torch.float -> !torch.vtensor<[2,4,8],f32>
  %b = torch.aten.slice.Tensor %xp, %i2, %i0, %i6, %i1 : !torch.vtensor<[2,4,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[2,4,6],f32>
  %m0 = torch.aten.mul.Tensor %df, %xf : !torch.vtensor<[2,4,6],f32>, !torch.vtensor<[2,4,6],f32> -> !torch.vtensor<[2,4,6],f32>
  %m1 = torch.aten.mul.Tensor %df, %b : !torch.vtensor<[2,4,6],f32>, !torch.vtensor<[2,4,6],f32> -> !torch.vtensor<[2,4,6],f32>
  %s0 = torch.aten.sum.dim_IntList %m0, %d, %f, %none : !torch.vtensor<[2,4,6],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[4],f32>
  %s1 = torch.aten.sum.dim_IntList %m1, %d, %f, %none : !torch.vtensor<[2,4,6],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[4],f32>
  return %s0, %s1 : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>
}
