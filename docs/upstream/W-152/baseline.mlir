func.func @main(%a: !torch.vtensor<[8192,64],f32>, %b: !torch.vtensor<[8192,64],f32>) -> !torch.vtensor<[8192,128],f32> {
  %none = torch.constant.none
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i6 = torch.constant.int 6
  %i64 = torch.constant.int 64
  %i128 = torch.constant.int 128
  %i8192 = torch.constant.int 8192
  %shape = torch.prim.ListConstruct %i8192, %i128 : (!torch.int, !torch.int) -> !torch.list<int>
  %e = torch.aten.empty.memory_format %shape, %i6, %none, %none, %none, %none : !torch.list<int>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[8192,128],f32>
  %h = torch.aten.slice_scatter %e, %a, %i1, %i0, %i64, %i1 : !torch.vtensor<[8192,128],f32>, !torch.vtensor<[8192,64],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[8192,128],f32>
  %y = torch.aten.slice_scatter %h, %b, %i1, %i64, %i128, %i1 : !torch.vtensor<[8192,128],f32>, !torch.vtensor<[8192,64],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[8192,128],f32>
  return %y : !torch.vtensor<[8192,128],f32>
}
