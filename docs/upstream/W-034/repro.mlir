func.func @main(%x: !torch.vtensor<[1,1,1,15],f16>, %a: !torch.vtensor<[3,4],f32>) -> !torch.vtensor<[3,1],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i2 = torch.constant.int 2
  %i3 = torch.constant.int 3
  %i4 = torch.constant.int 4
  %i6 = torch.constant.int 6
  %i10 = torch.constant.int 10
  %e = torch.prims.convert_element_type %x, %i6 : !torch.vtensor<[1,1,1,15],f16>, !torch.int -> !torch.vtensor<[1,1,1,15],f32>
  %s = torch.aten.slice.Tensor %e, %i3, %i0, %i10, %i3 : !torch.vtensor<[1,1,1,15],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,1,1,4],f32>
  %o = torch.prim.ListConstruct %i0, %i2, %i3, %i1 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %p = torch.aten.permute %s, %o : !torch.vtensor<[1,1,1,4],f32>, !torch.list<int> -> !torch.vtensor<[1,1,4,1],f32>
  %d = torch.prim.ListConstruct %i4, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %b = torch.aten.view %p, %d : !torch.vtensor<[1,1,4,1],f32>, !torch.list<int> -> !torch.vtensor<[4,1],f32>
  %y = torch.aten.mm %a, %b : !torch.vtensor<[3,4],f32>, !torch.vtensor<[4,1],f32> -> !torch.vtensor<[3,1],f32>
  return %y : !torch.vtensor<[3,1],f32>
}
