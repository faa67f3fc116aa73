func.func @main(%x: !torch.vtensor<[1,4,1,8],f32>, %w: !torch.vtensor<[8,4,2,3],f32>) -> !torch.vtensor<[1,8,1,6],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i2 = torch.constant.int 2
  %i3 = torch.constant.int 3
  %zero = torch.constant.float 0.0
  %false = torch.constant.bool false
  %none = torch.constant.none
  %padding = torch.prim.ListConstruct %i0, %i0, %i2, %i0 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %0 = torch.aten.constant_pad_nd %x, %padding, %zero : !torch.vtensor<[1,4,1,8],f32>, !torch.list<int>, !torch.float -> !torch.vtensor<[1,4,3,8],f32>
  %strides = torch.prim.ListConstruct %i3, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %zeros = torch.prim.ListConstruct %i0, %i0 : (!torch.int, !torch.int) -> !torch.list<int>
  %ones = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %empty = torch.prim.ListConstruct  : () -> !torch.list<int>
  %1 = torch.aten.convolution %0, %w, %none, %strides, %zeros, %ones, %false, %empty, %i1 : !torch.vtensor<[1,4,3,8],f32>, !torch.vtensor<[8,4,2,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,8,1,6],f32>
  return %1 : !torch.vtensor<[1,8,1,6],f32>
}
