func.func @main(%x: !torch.vtensor<[8,7,13,2],f16>) -> !torch.vtensor<[8,3],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i2 = torch.constant.int 2
  %i3 = torch.constant.int 3
  %i6 = torch.constant.int 6
  %i7 = torch.constant.int 7
  %i8 = torch.constant.int 8
  %i9 = torch.constant.int 9
  %i10 = torch.constant.int 10
  %true = torch.constant.bool true
  %none = torch.constant.none
  %0 = torch.aten.slice.Tensor %x, %i1, %i0, %i7, %i3 : !torch.vtensor<[8,7,13,2],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[8,3,13,2],f16>
  %1 = torch.aten.slice.Tensor %0, %i2, %i9, %i10, %i1 : !torch.vtensor<[8,3,13,2],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[8,3,1,2],f16>
  %2 = torch.aten.slice.Tensor %1, %i3, %i1, %i2, %i1 : !torch.vtensor<[8,3,1,2],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[8,3,1,1],f16>
  %dims = torch.prim.ListConstruct %i8, %i3 : (!torch.int, !torch.int) -> !torch.list<int>
  %3 = torch.aten.view %2, %dims : !torch.vtensor<[8,3,1,1],f16>, !torch.list<int> -> !torch.vtensor<[8,3],f16>
  %4 = torch.prims.convert_element_type %3, %i6 : !torch.vtensor<[8,3],f16>, !torch.int -> !torch.vtensor<[8,3],f32>
  %last = torch.prim.ListConstruct %i1 : (!torch.int) -> !torch.list<int>
  %5 = torch.aten.mul.Tensor %4, %4 : !torch.vtensor<[8,3],f32>, !torch.vtensor<[8,3],f32> -> !torch.vtensor<[8,3],f32>
  %6 = torch.aten.sum.dim_IntList %5, %last, %true, %none : !torch.vtensor<[8,3],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[8,1],f32>
  %7 = torch.aten.mul.Tensor %4, %6 : !torch.vtensor<[8,3],f32>, !torch.vtensor<[8,1],f32> -> !torch.vtensor<[8,3],f32>
  return %7 : !torch.vtensor<[8,3],f32>
}
