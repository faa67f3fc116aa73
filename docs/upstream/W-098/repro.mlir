func.func @main(%xt: !torch.vtensor<[8,2,5,16],f16>, %w: !torch.vtensor<[1,16,1,1],f16>, %v: !torch.vtensor<[2,1,1,7],f16>) -> !torch.vtensor<[2,5,7],f16> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i2 = torch.constant.int 2
  %i3 = torch.constant.int 3
  %i5 = torch.constant.int 5
  %i6 = torch.constant.int 6
  %i7 = torch.constant.int 7
  %i8 = torch.constant.int 8
  %false = torch.constant.bool false
  %none = torch.constant.none
  %order = torch.prim.ListConstruct %i1, %i3, %i2, %i0 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %x = torch.aten.permute %xt, %order : !torch.vtensor<[8,2,5,16],f16>, !torch.list<int> -> !torch.vtensor<[2,16,5,8],f16>
  %x32 = torch.prims.convert_element_type %x, %i6 : !torch.vtensor<[2,16,5,8],f16>, !torch.int -> !torch.vtensor<[2,16,5,8],f32>
  %w32 = torch.prims.convert_element_type %w, %i6 : !torch.vtensor<[1,16,1,1],f16>, !torch.int -> !torch.vtensor<[1,16,1,1],f32>
  %ones = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %zeros = torch.prim.ListConstruct %i0, %i0 : (!torch.int, !torch.int) -> !torch.list<int>
  %empty = torch.prim.ListConstruct : () -> !torch.list<int>
  %c = torch.aten.convolution %x32, %w32, %none, %ones, %zeros, %ones, %false, %empty, %i1 : !torch.vtensor<[2,16,5,8],f32>, !torch.vtensor<[1,16,1,1],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[2,1,5,8],f32>
  %c16 = torch.prims.convert_element_type %c, %i5 : !torch.vtensor<[2,1,5,8],f32>, !torch.int -> !torch.vtensor<[2,1,5,8],f16>
  %sv = torch.prim.ListConstruct %i2, %i1, %i8, %i7 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %ve = torch.aten.expand %v, %sv, %false : !torch.vtensor<[2,1,1,7],f16>, !torch.list<int>, !torch.bool -> !torch.vtensor<[2,1,8,7],f16>
  %va = torch.aten.slice.Tensor %ve, %i0, %i0, %i1, %i1 : !torch.vtensor<[2,1,8,7],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,1,8,7],f16>
  %vb = torch.aten.slice.Tensor %ve, %i0, %i1, %i2, %i1 : !torch.vtensor<[2,1,8,7],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,1,8,7],f16>
  %vl = torch.prim.ListConstruct %va, %vb : (!torch.vtensor<[1,1,8,7],f16>, !torch.vtensor<[1,1,8,7],f16>) -> !torch.list<vtensor<[1,1,8,7],f16>>
  %vc = torch.aten.cat %vl, %i0 : !torch.list<vtensor<[1,1,8,7],f16>>, !torch.int -> !torch.vtensor<[2,1,8,7],f16>
  %sa = torch.prim.ListConstruct %i2, %i5, %i8 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %a = torch.aten.view %c16, %sa : !torch.vtensor<[2,1,5,8],f16>, !torch.list<int> -> !torch.vtensor<[2,5,8],f16>
  %sb = torch.prim.ListConstruct %i2, %i8, %i7 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %b = torch.aten.view %vc, %sb : !torch.vtensor<[2,1,8,7],f16>, !torch.list<int> -> !torch.vtensor<[2,8,7],f16>
  %m = torch.aten.bmm %a, %b : !torch.vtensor<[2,5,8],f16>, !torch.vtensor<[2,8,7],f16> -> !torch.vtensor<[2,5,7],f32>
  %y = torch.prims.convert_element_type %m, %i5 : !torch.vtensor<[2,5,7],f32>, !torch.int -> !torch.vtensor<[2,5,7],f16>
  return %y : !torch.vtensor<[2,5,7],f16>
}
