func.func @main(%a: !torch.vtensor<[2,8,6,3],f32>, %b: !torch.vtensor<[2,8,6,3],f32>, %w: !torch.vtensor<[8,8,3,3],f32>) -> !torch.vtensor<[2,8,6,6],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.prim.ListConstruct %a, %b : (!torch.vtensor<[2,8,6,3],f32>, !torch.vtensor<[2,8,6,3],f32>) -> !torch.list<vtensor<[2,8,6,3],f32>>
  %2 = torch.constant.int 3
  %3 = torch.aten.cat %1, %2 : !torch.list<vtensor<[2,8,6,3],f32>>, !torch.int -> !torch.vtensor<[2,8,6,6],f32>
  %4 = torch.constant.none
  %5 = torch.constant.int 1
  %6 = torch.prim.ListConstruct %5, %5 : (!torch.int, !torch.int) -> !torch.list<int>
  %7 = torch.constant.bool false
  %8 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %9 = torch.aten.convolution %3, %w, %4, %6, %6, %6, %7, %8, %5 : !torch.vtensor<[2,8,6,6],f32>, !torch.vtensor<[8,8,3,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[2,8,6,6],f32>
  return %9 : !torch.vtensor<[2,8,6,6],f32>
}
