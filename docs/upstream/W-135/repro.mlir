func.func @main(%x: !torch.vtensor<[1,4,3,9],f32>, %w: !torch.vtensor<[4,4,2,2],f32>, %z: !torch.vtensor<[1,4,4,2],f32>) -> !torch.vtensor<[1,4,4,12],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %i1 = torch.constant.int 1
  %i3 = torch.constant.int 3
  %false = torch.constant.bool false
  %none = torch.constant.none
  %empty = torch.prim.ListConstruct : () -> !torch.list<int>
  %ones = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %y = torch.aten.convolution %x, %w, %none, %ones, %ones, %ones, %false, %empty, %i1 : !torch.vtensor<[1,4,3,9],f32>, !torch.vtensor<[4,4,2,2],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,4,4,10],f32>
  %parts = torch.prim.ListConstruct %y, %z : (!torch.vtensor<[1,4,4,10],f32>, !torch.vtensor<[1,4,4,2],f32>) -> !torch.list<vtensor<*,f32>>
  %c = torch.aten.cat %parts, %i3 : !torch.list<vtensor<*,f32>>, !torch.int -> !torch.vtensor<[1,4,4,12],f32>
  return %c : !torch.vtensor<[1,4,4,12],f32>
}
